"""Sessions: filed under a digest, read with the person in one statement, and worth nothing in a dump."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions.credential_changes import end_credentials
from accounts.sessions.store import SessionStore, digest
from accounts.sessions.user_agents import browser_name
from tests.factories import PersonFactory
from tests.pages import FIREFOX, is_signed_in, sign_in, with_session

pytestmark = pytest.mark.django_db


def key_of(browser: Client) -> str:
    return browser.cookies[settings.SESSION_COOKIE_NAME].value


def test_what_a_session_holds_can_not_be_read_from_the_table() -> None:
    store = SessionStore()
    store["secret"] = "a code that was mailed"
    store.create()
    store.save()
    row = Session.objects.get()
    assert SessionStore(row.session_key).decode(row.session_data) == {}
    assert SessionStore(store.session_key).load() == {"secret": "a code that was mailed"}


def test_session_and_person_are_read_in_one_statement(browser: Client) -> None:
    """And nothing is read where nobody is signed in."""
    for reader, number in ((browser, 1), (Client(), 0)):
        with CaptureQueriesContext(connection) as statements:
            reader.get("/accounts/sign-in")
        assert len(statements) == number


def test_nothing_is_stored_under_a_key_that_mallory_made_up(alice: User) -> None:
    store = SessionStore("a" * 32)
    assert store.get("anything") is None
    store["anything"] = 1
    store.save()
    assert store.session_key != "a" * 32
    assert Session.objects.get().session_key == digest(store.session_key or "")
    victim, made_up = Client(), "b" * 32
    victim.cookies[settings.SESSION_COOKIE_NAME] = made_up
    assert sign_in(victim, alice.email).status_code == 302
    assert is_signed_in(victim)
    assert key_of(victim) != made_up
    assert SessionStore(made_up).load() == {}


def test_a_malformed_session_cookie_signs_nobody_in() -> None:
    for cookie in ("", "x", "\\000", "é" * 40, "a" * 4000, "%00" * 20):
        stranger = Client()
        stranger.cookies[settings.SESSION_COOKIE_NAME] = cookie
        assert not is_signed_in(stranger), cookie


def test_a_deactivated_person_is_signed_out_at_once(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert not is_signed_in(browser)


def test_a_new_password_ends_sessions_begun_with_the_old_one(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(password=make_password("another battery staple"))
    assert not is_signed_in(browser)
    assert not Session.objects.exists()


def test_a_backend_that_is_no_longer_configured_signs_nobody_in(browser: Client, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
    assert not is_signed_in(browser)


def test_a_session_remembers_when_it_began_and_is_saved_without_reading(browser: Client) -> None:
    began = timezone.now() - timedelta(days=3)
    Session.objects.update(created_at=began)
    session = browser.session
    session["anything"] = 1
    with CaptureQueriesContext(connection) as statements:
        session.save()
    assert "SELECT" not in {query["sql"].split()[0] for query in statements}
    assert Session.objects.get().created_at == began
    session.cycle_key()
    assert Session.objects.get().created_at > began


def test_an_expired_session_is_over_and_can_be_cleared(browser: Client) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_signed_in(browser)
    Session.objects.update(expire_date=timezone.now() - timedelta(days=1))
    SessionStore.clear_expired()
    assert not Session.objects.exists()


def test_a_retired_secret_key_keeps_people_signed_in_and_one_that_was_dropped_does_not(
    browser: Client, alice: User, settings: Any
) -> None:
    left = with_session(alice)
    before = key_of(browser)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key that is long enough" * 2, [settings.SECRET_KEY]
    assert is_signed_in(browser)
    assert key_of(browser) == before, "open pages are bound to it"
    settings.SECRET_KEY_FALLBACKS = []
    assert is_signed_in(browser)
    assert not is_signed_in(left)


def test_ending_credentials_spares_the_session_that_asked_and_other_people(browser: Client, alice: User) -> None:
    other = with_session(alice)
    end_credentials(PersonFactory(nickname="Mallory"))
    assert is_signed_in(other)
    end_credentials(alice, except_session=key_of(browser))
    assert [row.session_key for row in Session.objects.all()] == [digest(key_of(browser))]
    assert not is_signed_in(other)


def test_a_browser_has_a_fixed_name_on_pages_and_in_mails() -> None:
    names = {
        FIREFOX: "Firefox on Linux",
        "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0": "Edge on Windows",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1": "Safari on iPhone",
        "Firefox/1 <b>http://mallory.example</b>": "Firefox",
    } | dict.fromkeys(["curl/8", ""], "an unknown browser")
    assert {header: browser_name(header) for header in names} == names
