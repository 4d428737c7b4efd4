"""A new e-mail address: confirmed by a code that goes there, while the old one counts."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import time_machine
from allauth.account.models import EmailAddress
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.mail import outbox
from accounts.models import Session, User
from accounts.sign_in import verification
from tests.factories import PASSWORD, PersonFactory
from tests.pages import mailed_code, sign_in, type_code

pytestmark = pytest.mark.django_db


@pytest.fixture
def new() -> str:
    return str(PersonFactory.build().email)


def ask(browser: Client, email: str) -> Any:
    return browser.post("/accounts/email", {"email": email})


def assert_address_is(person: User, email: str) -> None:
    person.refresh_from_db()
    assert person.email == email
    rows = EmailAddress.objects.filter(user=person).values_list("email", "primary", "verified")
    assert list(rows) == [(email, True, person.email_verified_at is not None)]


def test_the_address_is_the_old_one_until_the_code_is_typed(browser: Client, alice: User, new: str) -> None:
    old = alice.email
    assert ask(browser, f" {new.upper()} ")["Location"] == "/accounts/confirm-email"
    (letter,) = mail.outbox
    assert letter.to == [new]
    assert_address_is(alice, old)
    hidden = [(fact, letter.body) for fact in (old, alice.nickname, "/password/reset")]
    hidden += [(fact, str(Session.objects.values())) for fact in (mailed_code(), new)]
    assert not [fact for fact, text in hidden if fact in text]
    assert type_code(browser, mailed_code())["Location"] == "/accounts/profile"
    assert_address_is(alice, new)
    assert alice.email_verified_at is not None
    assert [sign_in(Client(), email).status_code for email in (old, new)] == [200, 302]
    browser.post("/accounts/sign-out")
    assert browser.get("/accounts/sign-in").context["offered"]["email"] == new, "the browser is known again"
    assert outbox.deliver_next()
    told = mail.outbox[-1]
    assert (told.to, "was changed" in told.subject) == ([old], True)
    assert [fact for fact in (new, "Firefox on Linux") if fact not in told.body] == []


def test_an_address_that_was_never_confirmed_can_be_corrected_and_is_not_written_to(new: str) -> None:
    bob, browser = PersonFactory(email_verified_at=None), Client()
    verification.align(bob)  # as a sign-in does
    browser.force_login(bob)
    browser.post("/accounts/confirm", {"password": PASSWORD})
    ask(browser, new)
    type_code(browser, mailed_code())
    assert_address_is(bob, new)
    assert bob.email_verified_at is not None
    assert not outbox.deliver_next()
    assert {to for message in mail.outbox for to in message.to} == {new}


def test_nobody_learns_whether_an_address_has_an_account(browser: Client, alice: User, new: str) -> None:
    old, seen = alice.email, []
    with time_machine.travel(time.time(), tick=False):  # the mail tells the minute in which the code ends
        for email in (new, PersonFactory().email, PersonFactory(email_verified_at=None).email):
            with CaptureQueriesContext(connection) as statements:
                answer = ask(browser, email)
            page = browser.get("/accounts/confirm-email").content.decode()
            page = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", page).replace(email, "")
            body = mail.outbox[-1].body.replace(mailed_code(), "")
            seen.append((answer["Location"], page, body, mail.outbox[-1].to == [email], len(statements)))
    assert seen[1:] == seen[:-1]
    assert type_code(browser, mailed_code()).context["form"].errors, "even with the code"
    assert_address_is(alice, old)


def test_an_address_that_is_taken_at_this_moment_leaves_everything_as_it_was(
    browser: Client, alice: User, new: str, monkeypatch: Any
) -> None:
    old = alice.email
    ask(browser, new)
    monkeypatch.setattr("allauth.account.forms.email_already_exists", lambda **_: PersonFactory(email=new))
    page = browser.post("/accounts/confirm-email", {"code": mailed_code()}, follow=True)
    assert b"Another account uses this address" in page.content
    assert_address_is(alice, old)
    assert page.context["person"]["email"] == old
