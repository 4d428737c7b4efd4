"""People are told of the first consent to an application, and of a code that was replayed."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
import time_machine
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.mail import outbox
from accounts.models import OutgoingMail, User
from oauth_bridge.models import Consent
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.pages import deliver_all, with_session

pytestmark = pytest.mark.django_db

Rewind = Callable[..., None]
FORM = "application/x-www-form-urlencoded"


def delivered() -> list[tuple[str, str]]:
    """Address and subject of each e-mail."""
    deliver_all()
    return [(message.to[0], message.subject) for message in mail.outbox]


def consent_form(browser: Client, application: Registered, **more: str) -> dict[str, str]:
    query = {"client_id": application.client_id, "redirect_uri": application.redirect_uri, "response_type": "code"}
    link = f"/oauth/authorize?{urlencode({**query, 'state': 's', **more})}"
    page = browser.get(link, headers={"accept": "text/html"}, follow=True)
    pending = re.search(r'name="pending" value="([^"]*)"', page.content.decode())
    assert pending
    return {"pending": unescape(pending[1])}


def answer(browser: Client, fields: dict[str, str], decision: str = "allow") -> Any:
    return browser.post("/oauth/authorize", urlencode({**fields, "decision": decision}), content_type=FORM)


def exchange(application: Registered, code: str) -> Any:
    fields = {"grant_type": "authorization_code", "client_id": application.client_id}
    fields |= {"client_secret": application.client_secret, "code": code}
    return Client().post("/oauth/token", urlencode(fields), content_type=FORM)


def replay(application: Registered, person: User, rewind: Rewind) -> None:
    code = CodeFactory(application=application, user=person)
    assert exchange(application, code.raw).status_code == 200
    rewind(code.row, 4)
    assert exchange(application, code.raw).status_code == 400


def test_the_first_consent_to_an_application_is_told(client: Client, alice: User) -> None:
    application = ApplicationFactory(name='Photo "Book" <b>')
    client.force_login(alice)
    form = consent_form(client, application)
    assert "code=" in answer(client, form)["Location"]
    assert "code=" in answer(client, form)["Location"], "a double click"
    assert delivered() == [
        (alice.email, 'You allowed Photo "Book" <b> to use your account at Delegated Sign-In'),
    ]
    assert "http://testserver/accounts/applications" in mail.outbox[0].body
    read = f"Picture Nickname: {alice.nickname} E-mail address: {alice.email} User ID: {alice.pk}"
    assert f"It can read: {read} " in re.sub(r"\s+", " ", mail.outbox[0].body)
    assert "Photo &quot;Book&quot; &lt;b&gt;" in str(mail.outbox[0].alternatives[0][0])


def test_a_consent_that_is_given_again_is_not_told(client: Client, alice: User) -> None:
    application = ApplicationFactory()
    client.force_login(alice)
    answer(client, {**consent_form(client, application), "remember": "on"})
    assert len(delivered()) == 1
    Consent.objects.update(fingerprint="of earlier details")
    answer(client, consent_form(client, application))
    assert len(delivered()) == 1


def test_a_refusal_and_a_stranger_tell_nobody(client: Client, alice: User) -> None:
    application = ApplicationFactory()
    client.force_login(alice)
    form = consent_form(client, application)
    answer(client, form, "refuse")
    mallory = with_session(PersonFactory(nickname="Mallory"))
    answer(mallory, form)
    answer(Client(), form)
    assert delivered() == []


def test_a_replayed_code_is_told_once_for_each_application(alice: User, rewind: Rewind) -> None:
    """Otherwise an application could fill the mailboxes of its users."""
    first, second = ApplicationFactory(name="Photo Book"), ApplicationFactory(name="Calendar")
    for _ in range(3):
        replay(first, alice, rewind)
    replay(second, alice, rewind)
    told = delivered()
    assert [address for address, _subject in told] == [alice.email] * 2
    assert {"Photo Book" in subject for _address, subject in told} == {True, False}
    replay(first, alice, rewind)
    assert len(delivered()) == 2
    with time_machine.travel(timezone.now() + outbox.NOTICE_LIFETIME):
        delivered()
        replay(first, alice, rewind)
        assert len(delivered()) == 3


@pytest.mark.parametrize("change", [{"is_active": False}, {"email_verified_at": None}])
def test_a_replay_is_told_to_no_address_that_is_not_the_persons(rewind: Rewind, change: dict[str, Any]) -> None:
    application, person = ApplicationFactory(), PersonFactory()
    code = CodeFactory(application=application, user=person)
    exchange(application, code.raw)
    rewind(code.row, 4)
    User.objects.filter(pk=person.pk).update(**change)
    assert exchange(application, code.raw).status_code == 400
    assert delivered() == []


def test_an_exchange_that_is_sent_twice_is_no_replay(alice: User) -> None:
    application = ApplicationFactory()
    code = CodeFactory(application=application, user=alice)
    assert [exchange(application, code.raw).status_code for _ in range(2)] == [200, 400]
    assert delivered() == []


def test_a_redemption_costs_no_statement_for_notices(alice: User) -> None:
    application = ApplicationFactory()
    code = CodeFactory(application=application, user=alice)
    with CaptureQueriesContext(connection) as statements:
        assert exchange(application, code.raw).status_code == 200
    assert OutgoingMail._meta.db_table not in str(statements.captured_queries)


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ("profile", {"Picture", "Nickname: Alice Ægir", "E-mail address: ", "User ID: "}),
        ("openid", {"User ID: "}),
        ("openid email", {"E-mail address: ", "User ID: "}),
    ],
)
def test_the_mail_names_what_the_application_may_read(
    browser: Client, application: Registered, scope: str, told: set[str]
) -> None:
    answer(browser, consent_form(browser, application, scope=scope))
    deliver_all()
    lines = str(mail.outbox[-1].body).splitlines()
    names = ("Picture", "Nickname", "E-mail address", "User ID", "Groups")
    found = {line for line in lines if line.startswith(names)}
    assert len(found) == len(told)
    assert all(any(line.startswith(each) for line in found) for each in told)
