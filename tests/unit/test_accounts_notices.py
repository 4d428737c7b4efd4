"""People are told of a sign-in in a new browser, of a recovery code that was used, and of their deleted account."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.utils import timezone

from accounts.mail import outbox
from accounts.models import OutgoingMail, User
from accounts.sessions.credential_changes import end_credentials
from tests.factories import PersonFactory
from tests.factors import SECOND, Account
from tests.pages import FIREFOX, browser_of, deliver_all, sign_in

pytestmark = pytest.mark.django_db

NEW_BROWSER = "A sign-in in a new browser at Delegated Sign-In"
CODE_USED = "A recovery code was used at Delegated Sign-In"
DELETED = "Your account at Delegated Sign-In is deleted"


@pytest.fixture
def regular() -> User:
    """Who has signed in before."""
    return PersonFactory(last_login=timezone.now() - timedelta(days=1))


def delivered(subject: str) -> list[Any]:
    """The e-mails with that subject."""
    deliver_all()
    return [message for message in mail.outbox if message.subject == subject]


# A new browser --------------------------------------------------------------------------------------------------------


def test_a_sign_in_in_a_new_browser_is_told_once(regular: User) -> None:
    with time_machine.travel("2026-11-23 09:30:00+00:00", tick=False):
        browser = browser_of(regular)
        browser.post("/accounts/sign-out")
        sign_in(browser, regular.email)
        (message,) = delivered(NEW_BROWSER)
    assert message.to == [regular.email]
    text = re.sub(r"\s+", " ", message.body)
    assert "Firefox on Linux, 23 November 2026, 09:30 UTC" in text
    assert "Not you? Then someone else uses your account. Choose a new password at once:" in text
    for page in ("/accounts/password/reset", "/accounts/security"):
        assert f"http://testserver{page}" in text
    sign_in(Client(), regular.email)
    assert len(delivered(NEW_BROWSER)) == 2


def test_a_browser_stays_seen_when_the_credentials_end(regular: User) -> None:
    browser = browser_of(regular)
    end_credentials(regular)
    sign_in(browser, regular.email)
    assert len(delivered(NEW_BROWSER)) == 1


def test_a_browser_of_another_person_is_new(regular: User) -> None:
    browser = browser_of(PersonFactory())
    browser.post("/accounts/sign-out")
    sign_in(browser, regular.email)
    assert [message.to for message in delivered(NEW_BROWSER)] == [[regular.email]]


def test_the_first_sign_in_of_an_account_is_not_told(sign_up_is_open: None) -> None:
    browser = Client()
    form = {"email": "new@example.org", "nickname": "Nia", "password1": "a long enough phrase"}
    browser.post("/accounts/sign-up", form)
    code = mail.outbox[0].subject.split()[0]
    assert browser.post("/accounts/confirm-email", {"code": code})["Location"] == "/accounts/profile"
    assert delivered(NEW_BROWSER) == []


def test_a_password_alone_is_no_sign_in(account: Account) -> None:
    account.browser_before_code()
    assert delivered(NEW_BROWSER) == []


def test_a_notice_is_in_the_language_of_the_person(regular: User) -> None:
    User.objects.filter(pk=regular.pk).update(language="fr")
    browser = Client(headers={"accept-language": "de", "user-agent": FIREFOX})
    sign_in(browser, regular.email)
    assert OutgoingMail.objects.count() == 1
    outbox.deliver_next()
    assert '<html lang="fr"' in str(mail.outbox[0].alternatives[0][0])
    assert "Firefox sur Linux" in re.sub(r"\s+", " ", mail.outbox[0].body).replace("\u00a0", " ")


# Recovery codes -------------------------------------------------------------------------------------------------------


def test_each_recovery_code_that_is_used_is_told_with_the_number_that_is_left(account: Account) -> None:
    for code in account.codes[:2]:
        browser = account.browser_before_code()
        assert browser.post(SECOND, {"code": code}).status_code == 302
    told = [re.sub(r"\s+", " ", message.body) for message in delivered(CODE_USED)]
    assert len(told) == 2
    for text, left in zip(told, (9, 8), strict=True):
        assert f"{left} recovery codes are left. You can make new ones on the security page" in text
    for code in account.codes[2:9]:
        browser = account.browser_before_code()
        browser.post(SECOND, {"code": code})
    assert "1 recovery code is left." in re.sub(r"\s+", " ", delivered(CODE_USED)[-1].body)


def test_a_code_of_the_app_and_a_wrong_code_are_not_told_as_a_recovery_code(account: Account) -> None:
    browser = account.browser_before_code()
    browser.post(SECOND, {"code": "12345678"})
    assert delivered(CODE_USED) == []


# Deletion -------------------------------------------------------------------------------------------------------------


def delete(browser: Client, email: str) -> Any:
    return browser.post("/accounts/delete", {"email": email})


def test_a_deleted_account_is_told_to_its_address(regular: User) -> None:
    browser = browser_of(regular)
    assert delete(browser, "somebody@example.com").status_code == 200
    assert delivered(DELETED) == []
    assert delete(browser, regular.email).status_code == 302
    (message,) = delivered(DELETED)
    assert message.to == [regular.email]
    assert "It cannot come back." in re.sub(r"\s+", " ", message.body)
    assert "Firefox on Linux" in message.body


def test_a_deletion_that_is_refused_is_not_told() -> None:
    User.objects.filter(is_superuser=True).delete()
    root = PersonFactory(is_staff=True, is_superuser=True)
    browser = browser_of(root)
    assert delete(browser, root.email).status_code == 200
    assert delivered(DELETED) == []


def test_nothing_is_told_to_an_address_that_is_not_confirmed(regular: User) -> None:
    browser = browser_of(regular)
    User.objects.filter(pk=regular.pk).update(email_verified_at=None)
    assert delete(browser, regular.email).status_code == 302
    assert delivered(DELETED) == []


@pytest.mark.parametrize("way", ["one", "several"])
def test_an_account_that_an_administrator_deletes_is_told_so(admin_client: Client, regular: User, way: str) -> None:
    people = "/admin/accounts/user/"
    if way == "one":
        answer = admin_client.post(f"{people}{regular.pk}/delete/", {"post": "yes", "typed": regular.email})
    else:
        answer = admin_client.post(
            people, {"action": "delete_selected", "_selected_action": str(regular.pk), "post": "yes", "typed": "1"}
        )
    assert answer.status_code == 302
    (message,) = delivered(DELETED)
    assert message.to == [regular.email]
    assert "an administrator deleted your account" in re.sub(r"\s+", " ", message.body)
    assert "Firefox" not in message.body, "that browser is not the person's"
