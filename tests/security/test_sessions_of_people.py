"""How many sessions a person keeps and which end first; that no session grows, and how long a stranger's lasts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions import store
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.grants import add_second_factor, example_paths, try_password
from tests.pages import PASSKEY, browser_of, is_signed_in, known_browser
from tests.security.test_rows_of_strangers import FIELDS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment", "sign_up_is_open")]

PROFILE = "/accounts/profile"
FEW = 8  # requests, more than a session keeps messages


@pytest.fixture(autouse=True)
def three_are_kept(monkeypatch: Any) -> None:
    assert store.KEPT == 100
    monkeypatch.setattr(store, "KEPT", 3)


def signed_in_ago(person: User, browser: Client | None = None, *, minutes: int = 0) -> Client:
    browser = browser or Client()
    before = set(Session.objects.values_list("pk", flat=True))
    assert try_password(person.email, PASSWORD, browser=browser).status_code == 302
    began = timezone.now() - timedelta(minutes=minutes)
    Session.objects.exclude(pk__in=before).update(created_at=began, last_used_at=began)
    return browser


def are_signed_in(browsers: list[Client]) -> list[bool]:
    return [is_signed_in(browser) for browser in browsers]


def test_a_sign_in_ends_the_oldest_sessions_beyond_the_newest(alice: User) -> None:
    bob = PersonFactory()
    his = signed_in_ago(bob, minutes=50)
    hers = [signed_in_ago(alice, minutes=minutes) for minutes in (40, 30, 20, 10, 0)]
    assert are_signed_in([his, *hers]) == [True, False, False, True, True, True]


def test_known_browsers_and_sessions_used_for_more_than_an_hour_outlast_sign_ins_from_elsewhere(alice: User) -> None:
    used = signed_in_ago(alice, minutes=100)
    Session.objects.update(last_used_at=timezone.now() - timedelta(minutes=30))
    known = signed_in_ago(alice, known_browser(alice), minutes=55)
    mallorys = [signed_in_ago(alice, minutes=minutes) for minutes in (40, 30, 20, 10, 0)]
    assert are_signed_in([used, known, *mallorys]) == [True] * 2 + [False] * 4 + [True]


def test_expired_sessions_go_first(alice: User) -> None:
    old, hers = signed_in_ago(alice, known_browser(alice), minutes=1), signed_in_ago(alice, minutes=50)
    Session.objects.filter(was_known=True).update(expire_date=timezone.now())
    signed_in_ago(alice, minutes=40)
    signed_in_ago(alice)
    assert are_signed_in([old, hers]) == [False, True]
    assert Session.objects.filter(user=alice).count() == 3


def test_somebody_with_the_password_alone_ends_no_session(alice: User, settings: Any) -> None:
    """Nothing is counted before the second factor."""
    settings.RATES = {"sign_in_done": "4/15m"}
    hers = [signed_in_ago(alice, minutes=minutes) for minutes in (30, 20, 10)]
    factor = add_second_factor(alice)
    for number in range(5):
        begun = try_password(alice.email, PASSWORD, address=f"192.0.2.{number}")
        assert begun["Location"] == "/accounts/sign-in/code"
    assert are_signed_in(hers) == [True] * 3
    factor.delete()
    assert try_password(alice.email, PASSWORD).status_code == 302


def stranger() -> Client:
    """Somebody who is not signed in and has a session."""
    browser = Client()
    browser.get(PASSKEY)
    return browser


def holder() -> Client:
    return browser_of(PersonFactory())


def late_holder() -> Client:
    """Somebody whose next sensitive form must wait for the password."""
    browser = holder()
    session = browser.session
    session["account_authentication_methods"][0]["at"] -= 3600
    session.save()
    return browser


@contract("D21.sessions")
@pytest.mark.parametrize("sender", [stranger, holder, late_holder])
def test_no_number_of_requests_to_any_path_makes_a_session_grow(sender: Callable[[], Client], settings: Any) -> None:
    settings.RATES = {}
    grown = {}
    for path in example_paths():
        browser, sizes = sender(), []
        browser.get(f"{path}?next=/accounts/profile")
        for number in range(2 * FEW):
            post = {**FIELDS, "nickname": f"Mallory {number:02}", "remove_picture": "1", "padding": "x" * 5000}
            browser.post(f"{path}?next=/accounts/profile", post)
            sizes.append(max((len(row) for row in Session.objects.values_list("session_data", flat=True)), default=0))
        if sizes[-1] > sizes[FEW] or sizes[-1] > 4000:
            grown[path] = sizes
        Session.objects.all().delete()
    assert not grown


@pytest.mark.parametrize(
    ("sender", "path", "posts"),
    [
        (stranger, PASSKEY, [{"credential": value} for value in ("[]", "{}", '{"id": 1}', "x", "null", "0", "", "{")]),
        (holder, PROFILE, [{"remove_picture": "1"}] * FEW),
    ],
)
def test_a_message_that_waits_already_is_kept_once_and_nothing_is_written(
    sender: Callable[[], Client], path: str, posts: list[dict[str, str]]
) -> None:
    browser = sender()
    for post in posts[:-1]:
        browser.post(path, post)
    before = Session.objects.get().session_data
    with CaptureQueriesContext(connection) as statements:
        browser.post(path, posts[-1])
    assert [each["sql"] for each in statements if each["sql"].startswith('UPDATE "accounts_session"')] == []
    assert Session.objects.get().session_data == before
    shown = browser.get("/accounts/sign-in" if sender is stranger else PROFILE)
    texts = [str(each) for each in get_messages(shown.wsgi_request)] or [
        str(each) for each in shown.context["messages"]
    ]
    assert 1 <= len(texts) == len(set(texts)) <= 2


@contract("D21.sessions")
def test_the_session_of_a_stranger_ends_an_hour_after_it_began_whatever_they_send() -> None:
    start = timezone.now()
    browser = stranger()
    for minutes in (1, 30, 59):
        with time_machine.travel(start + timedelta(minutes=minutes), tick=False):
            browser.get(PASSKEY)  # stores another challenge
            assert browser.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == 3600 - minutes * 60
    assert Session.objects.get().expire_date == start + timedelta(hours=1)
    with time_machine.travel(start + timedelta(minutes=61), tick=False):
        key = browser.cookies[settings.SESSION_COOKIE_NAME].value
        browser.get(PASSKEY)
        assert browser.cookies[settings.SESSION_COOKIE_NAME].value != key


def test_proofs_of_one_kind_are_kept_once_and_the_latest_counts() -> None:
    person = PersonFactory()
    browser = browser_of(person)
    at = timezone.now()
    for minutes in range(1, 30, 4):
        with time_machine.travel(at + timedelta(minutes=minutes), tick=False):
            assert browser.post("/accounts/confirm", {"password": PASSWORD}).status_code == 302
    records = browser.session["account_authentication_methods"]
    assert [each.get("reauthenticated", False) for each in records] == [False, True]
    assert records[-1]["at"] == (at + timedelta(minutes=29)).timestamp()
