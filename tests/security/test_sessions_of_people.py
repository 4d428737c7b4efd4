"""How many sessions a person keeps, and which ones end first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions import store
from tests.factories import PASSWORD, PersonFactory
from tests.grants import add_second_factor, try_password
from tests.pages import is_signed_in, known_browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]


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


def test_however_many_sessions_there_are_a_hundred_remain(alice: User, monkeypatch: Any) -> None:
    monkeypatch.setattr(store, "KEPT", 100)
    began = timezone.now() - timedelta(hours=2)
    Session.objects.bulk_create(
        Session(session_key=f"{number}", user=alice, expire_date=timezone.now() + timedelta(days=1), created_at=began)
        for number in range(1050)
    )
    here = signed_in_ago(alice)
    assert Session.objects.filter(user=alice).count() == 100
    assert are_signed_in([here]) == [True]


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
