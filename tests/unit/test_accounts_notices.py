"""E-mails about events of an account: what causes them, and their texts."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.utils import timezone, translation

from accounts.mail.composing import compose
from accounts.mail.outbox import Email
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from tests.factories import PersonFactory
from tests.pages import SECOND, Account, browser_of, deliver_all, sign_in

pytestmark = pytest.mark.django_db

NEW_BROWSER = "A sign-in in a new browser at Delegated Sign-In"
CODE_USED = "A recovery code was used at Delegated Sign-In"
DELETED = "Your account at Delegated Sign-In is deleted"


@pytest.fixture
def regular() -> User:
    return PersonFactory(last_login=timezone.now() - timedelta(days=1))


def text_of(message: Any) -> str:
    return re.sub(r"\s+", " ", message.body)


def delivered(subject: str) -> list[Any]:
    deliver_all()
    return [message for message in mail.outbox if message.subject == subject]


def test_a_sign_in_in_a_new_browser_is_told_once(regular: User) -> None:
    browser = browser_of(PersonFactory())
    browser.post("/accounts/sign-out")
    with time_machine.travel("2026-11-23 09:30:00+00:00", tick=False):
        sign_in(browser, regular.email)
        (message,) = delivered(NEW_BROWSER)
    assert message.to == [regular.email], "a browser of another person is new"
    assert "Firefox on Linux, 23 November 2026, 09:30 UTC" in text_of(message)
    end_credentials(regular)
    sign_in(browser, regular.email)
    assert len(delivered(NEW_BROWSER)) == 1, "it stays seen"
    sign_in(Client(), regular.email)
    assert len(delivered(NEW_BROWSER)) == 2


def test_each_recovery_code_that_is_used_is_told_with_the_number_that_is_left(account: Account) -> None:
    browser = account.browser_before_code()
    assert delivered(NEW_BROWSER) == [], "a password alone is no sign-in"
    browser.post(SECOND, {"code": "12345678"})
    assert delivered(CODE_USED) == []
    for code in account.codes[:5]:
        assert account.browser_before_code().post(SECOND, {"code": code}).status_code == 302
    left = [re.findall(r"(\d) recovery codes are left\.", text_of(message)) for message in delivered(CODE_USED)]
    assert left == [["9"], ["8"], ["7"], ["6"], ["5"]]


def test_a_deleted_account_is_told_to_its_address_if_it_is_confirmed(regular: User) -> None:
    people = [PersonFactory(), regular]
    browsers = [browser_of(person) for person in people]
    User.objects.filter(pk=people[0].pk).update(email_verified_at=None)
    for person, browser in zip(people, browsers, strict=True):
        assert browser.post("/accounts/delete", {"email": person.email}).status_code == 302
    (message,) = delivered(DELETED)
    assert message.to == [regular.email]
    assert [fact for fact in ("It cannot come back.", "Firefox on Linux") if fact not in text_of(message)] == []


def test_removed_second_factors_are_told_to_their_person(account: Account) -> None:
    for _ in range(2):  # the second time, there is nothing to remove
        call_command("account", "remove-factors", account.person.email, stdout=StringIO())
    unconfirmed = Account(PersonFactory()).person
    User.objects.filter(pk=unconfirmed.pk).update(email_verified_at=None)
    call_command("account", "remove-factors", unconfirmed.email, stdout=StringIO())
    (message,) = delivered("Your second factors were removed at Delegated Sign-In")
    assert message.to == [account.person.email], "the other address may be a stranger's"
    assert "an administrator removed the authenticator app" in text_of(message)


# Texts of e-mails, as plain text and as HTML --------------------------------------------------------------------------

FOLDER = Path(settings.BASE_DIR) / "templates" / "account" / "email"
KINDS = sorted(path.name.removesuffix("_subject.txt") for path in FOLDER.glob("*_subject.txt"))
HOSTILE = 'Eve <img src=x> & "Co" http://testserver.mallory.example/'


def composed(kind: str, **changes: Any) -> Email:
    facts = {"now": timezone.now(), "expires_at": timezone.now(), "browser": "Firefox on Linux", "code": "R7K-2MX"}
    facts |= {"nickname": "Alice", "application": "Photo Book", "applications_address": "http://testserver/accounts/x"}
    facts |= {"password_reset_url": "http://testserver/accounts/password/reset/key", "to_email": "new@example.com"}
    facts |= {"from_email": "old@example.com", "left": 9}
    facts |= {"facts": [{"name": "nickname", "label": "Nickname", "value": changes.get("nickname", "Alice")}]}
    return compose(kind, "alice@example.com", facts | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_each_mail_has_two_parts_that_say_the_same_and_names_become_no_link(kind: str) -> None:
    message = composed(kind)
    assert len(message.subject.splitlines()) == 1
    plain = re.sub(r"\s+", "", message.text)
    shown = re.sub(r"<head>.*</head>|<[^>]+>|\s+", "", message.html, flags=re.DOTALL)
    assert shown == re.sub(r"--(?=DelegatedSign-In)", "", plain)
    assert "{{" not in message.text
    if kind.startswith(("factors_", "recovery_", "totp_", "webauthn_", "new_browser")):
        ways = {"http://testserver/accounts/password/reset", "http://testserver/accounts/security"}
        assert ways <= set(message.text.splitlines())
    message = composed(kind, nickname=HOSTILE, application=HOSTILE)
    assert "<img" not in message.html
    assert all(link.startswith("http://testserver/") for link in re.findall(r'href="([^"]*)"', message.html))
    if HOSTILE[:3] in message.text:
        assert 'Eve <img src=x> & "Co"' in re.sub(r"\s+", " ", message.text)
        assert "Eve &lt;img src=x&gt; &amp; &quot;Co&quot;" in message.html


def test_a_code_is_in_the_subject_and_alone_on_a_line_and_not_turned_round_in_arabic() -> None:
    for kind in ("email_confirmation", "email_confirmation_signup"):
        message = composed(kind)
        assert message.subject == "R7K-2MX is your code for Delegated Sign-In"
        assert re.search(r"^ {4}R7K-2MX$", message.text, re.MULTILINE)
    with translation.override("ar"):
        message = composed("email_confirmation")
        assert '<bdi dir="ltr">R7K-2MX</bdi>' in message.html
        assert message.subject.endswith("\u2066R7K-2MX\u2069")


def test_a_subject_has_no_line_end() -> None:
    subject = composed("application_allowed", application="Photo Book!\r\nBcc: eve\u2028\x85x").subject
    assert subject.startswith("You allowed Photo Book! Bcc: eve x to use")
