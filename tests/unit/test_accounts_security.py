"""The page of security, a new password of a signed-in person, and the password that is typed again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from accounts.mail import outbox
from accounts.models import Session, User
from accounts.passwords import hashing
from tests.factories import PASSWORD, PersonFactory
from tests.pages import NEW_PASSWORD, is_signed_in, sign_in, text_of, with_session

pytestmark = pytest.mark.django_db

CHANGE = "/accounts/password/change"
CONFIRM = "/accounts/confirm"


def change(browser: Client, present: str = PASSWORD, new: str = NEW_PASSWORD, again: str | None = None) -> Any:
    form = {"oldpassword": present, "password1": new, "password2": new if again is None else again}
    return browser.post(CHANGE, form)


def test_a_new_password_replaces_the_old_one_ends_other_sessions_and_is_told(client: Client, alice: User) -> None:
    client.force_login(alice)  # so there is no row in the table of addresses
    elsewhere, key = with_session(alice), client.session.session_key
    assert change(client)["Location"] == "/accounts/security"
    assert client.session.session_key != key
    assert is_signed_in(client)
    assert not is_signed_in(elsewhere)
    assert Session.objects.filter(user=alice).count() == 1
    assert outbox.deliver_next()
    assert mail.outbox[-1].to == [alice.email]
    assert mail.outbox[-1].subject.endswith("was changed")
    assert NEW_PASSWORD not in mail.outbox[-1].body
    assert sign_in(Client(), alice.email).status_code == 200
    assert sign_in(Client(), alice.email, NEW_PASSWORD).status_code == 302


@pytest.mark.parametrize(("new", "again"), [("short", None), (NEW_PASSWORD, "something else"), ("", None)])
def test_a_poor_new_password_changes_nothing_and_costs_no_attempt(
    browser: Client, alice: User, settings: Any, new: str, again: str | None
) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    for _ in range(3):
        assert change(browser, "wrong", new, again).context["form"].errors
    assert change(browser).status_code == 302


def test_a_stolen_session_is_not_enough_and_each_guess_counts_as_a_failed_sign_in_of_this_browser(
    browser: Client, alice: User, settings: Any
) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    for _ in range(3):
        assert change(browser, "a guess of Mallory").context["form"].errors["oldpassword"]
    refused = change(browser)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert browser.post(CONFIRM, {"password": PASSWORD}).status_code == 429
    assert sign_in(Client(), alice.email).status_code == 302, "the owner signs in elsewhere"


def test_somebody_without_a_password_gets_one_by_mail(client: Client) -> None:
    person = PersonFactory(password="!unusable")
    client.force_login(person)
    assert change(client, "", NEW_PASSWORD)["Location"] == "/accounts/password/reset"
    assert client.get(CHANGE)["Location"] == "/accounts/password/reset"
    assert b"Set a password by mail" in client.get("/accounts/security").content
    assert client.get(CONFIRM).status_code in (302, 403)
    person.refresh_from_db()
    assert not person.has_usable_password()


@pytest.mark.parametrize("path", [CHANGE, CONFIRM])
def test_a_password_that_must_wait_can_be_sent_again(browser: Client, path: str, monkeypatch: Any) -> None:
    form = {"password": PASSWORD, "oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        busy = browser.post(path, form)
    assert busy.status_code == 503
    assert int(busy["Retry-After"]) > 0
    assert browser.post(path, form).status_code == 302


def test_the_password_is_typed_again_and_the_way_goes_on(browser: Client) -> None:
    path = f"{CONFIRM}?next=/accounts/security"
    assert browser.post(path, {"password": "wrong"}).context["form"].errors["password"]
    assert browser.post(path, {"password": PASSWORD})["Location"] == "/accounts/security"
    away = browser.post(f"{CONFIRM}?next=https://mallory.example/", {"password": PASSWORD})
    assert away["Location"] == "/accounts/profile"


def test_an_error_of_allauth_is_in_our_words(browser: Client) -> None:
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": "a different one"}
    sentences = {"de": "Geben Sie beide Male dasselbe Passwort ein.", "zh-hans": "两次输入的密码必须相同。"}
    for language, sentence in sentences.items():
        assert sentence in text_of(browser.post(CHANGE, form, headers={"accept-language": language}))
