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
from tests.pages import NEW_PASSWORD, browser_of, is_signed_in, sign_in

pytestmark = pytest.mark.django_db

CHANGE = "/accounts/password/change"
CONFIRM = "/accounts/confirm"


def change(browser: Client, present: str = PASSWORD, new: str = NEW_PASSWORD, again: str | None = None) -> Any:
    form = {"oldpassword": present, "password1": new, "password2": new if again is None else again}
    return browser.post(CHANGE, form)


@pytest.mark.parametrize("path", ["/accounts/security", CHANGE, CONFIRM])
def test_the_pages_are_for_people_signed_in(client: Client, path: str) -> None:
    for answer in (client.get(path), client.post(path)):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/sign-in")


@pytest.mark.parametrize("path", ["/accounts/security", CHANGE, CONFIRM])
def test_no_cache_keeps_the_pages(browser: Client, path: str) -> None:
    assert "no-store" in browser.get(path)["Cache-Control"]


def test_the_security_page_leads_to_a_new_password(browser: Client) -> None:
    assert f'href="{CHANGE}"' in browser.get("/accounts/security").content.decode()


# A new password -------------------------------------------------------------------------------------------------------


def test_a_new_password_replaces_the_old_one(browser: Client, alice: User) -> None:
    assert change(browser)["Location"] == "/accounts/security"
    assert sign_in(Client(), alice.email).status_code == 200
    assert sign_in(Client(), alice.email, NEW_PASSWORD).status_code == 302


def test_this_browser_stays_signed_in_with_a_new_key_and_others_do_not(browser: Client, alice: User) -> None:
    elsewhere = browser_of(alice)
    key = browser.session.session_key
    change(browser)
    assert browser.session.session_key != key
    assert is_signed_in(browser)
    assert not is_signed_in(elsewhere)
    assert Session.objects.filter(user=alice).count() == 1


def test_the_person_is_told_by_mail(browser: Client, alice: User) -> None:
    change(browser)
    assert outbox.deliver_next()
    assert mail.outbox[-1].to == [alice.email]
    assert mail.outbox[-1].subject.endswith("was changed")
    assert NEW_PASSWORD not in mail.outbox[-1].body


def test_somebody_without_a_row_in_the_table_of_addresses_is_told_too(client: Client, alice: User) -> None:
    client.force_login(alice)
    assert change(client).status_code == 302
    assert outbox.deliver_next()
    assert mail.outbox[-1].to == [alice.email]


def test_a_stolen_session_is_not_enough(browser: Client, alice: User) -> None:
    page = change(browser, "a guess of Mallory")
    assert page.context["form"].errors["oldpassword"]
    assert sign_in(Client(), alice.email).status_code == 302


@pytest.mark.parametrize(
    ("new", "again"), [("short", None), (NEW_PASSWORD, "something else"), ("", None), ("x\x00" * 12, None)]
)
def test_a_poor_new_password_changes_nothing_and_costs_no_attempt(
    browser: Client, alice: User, settings: Any, new: str, again: str | None
) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    for _ in range(3):
        assert change(browser, "wrong", new, again).context["form"].errors
    assert change(browser).status_code == 302


def test_wrong_passwords_count_as_failed_sign_ins_of_this_browser(browser: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    for _ in range(3):
        assert change(browser, "wrong").status_code == 200
    refused = change(browser)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert browser.post(CONFIRM, {"password": PASSWORD}).status_code == 429
    assert sign_in(Client(), alice.email).status_code == 302, "the owner signs in elsewhere"


def test_without_limits_nothing_is_refused(browser: Client, settings: Any) -> None:
    settings.RATES = {}
    assert {change(browser, "wrong").status_code for _ in range(12)} == {200}
    assert change(browser).status_code == 302


def test_somebody_without_a_password_gets_one_by_mail(client: Client) -> None:
    person = PersonFactory(password="!unusable")
    client.force_login(person)
    assert change(client, "", NEW_PASSWORD)["Location"] == "/accounts/password/reset"
    assert client.get(CHANGE)["Location"] == "/accounts/password/reset"
    assert b"Set a password by mail" in client.get("/accounts/security").content
    person.refresh_from_db()
    assert not person.has_usable_password()


@pytest.mark.parametrize("path", [CHANGE, CONFIRM])
def test_a_password_that_must_wait_can_be_sent_again(browser: Client, path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(hashing, "WAIT_SECONDS", 0.01)
    form = {"password": PASSWORD, "oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with hashing.hashes.turn():
            held.set()
            release.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(10)
    try:
        busy = browser.post(path, form)
    finally:
        release.set()
        other.join()
    assert busy.status_code == 503
    assert int(busy["Retry-After"]) > 0
    assert browser.post(path, form).status_code == 302


# The password again ---------------------------------------------------------------------------------------------------


def test_the_password_is_typed_again_and_the_way_goes_on(browser: Client) -> None:
    path = f"{CONFIRM}?next=/accounts/security"
    assert browser.post(path, {"password": "wrong"}).context["form"].errors["password"]
    assert browser.post(path, {"password": PASSWORD})["Location"] == "/accounts/security"


def test_a_return_path_to_another_site_is_ignored_after_the_password(browser: Client) -> None:
    answer = browser.post(f"{CONFIRM}?next=https://mallory.example/", {"password": PASSWORD})
    assert answer["Location"] == "/accounts/profile"


def test_the_page_is_not_for_somebody_without_a_password(client: Client) -> None:
    client.force_login(PersonFactory(password="!unusable"))
    assert client.get(CONFIRM).status_code in (302, 403)
