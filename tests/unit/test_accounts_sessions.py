"""Sessions: filed under a digest, read with the person in one statement, and ended during a post."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.hashers import make_password
from django.db import OperationalError, connection
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions.credential_changes import end_credentials
from accounts.sessions.store import SessionStore, digest
from accounts.sessions.user_agents import browser_name
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import ApplicationFactory, PersonFactory
from tests.grants import PAGE, link_of
from tests.pages import FIREFOX, is_signed_in, proven, sign_in, with_session

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


# A post whose session ends meanwhile says whether it was carried out --------------------------------------------------


DONE, NOT_DONE = "What you sent was carried out.", "What you sent was not carried out"


@pytest.fixture
def sign_out_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says something on the next page is signed out in another browser at that moment."""
    add = messages.api.add_message

    def say(request: HttpRequest, *arguments: Any, **options: Any) -> None:
        assert request.user.is_authenticated
        Session.objects.all().delete()
        add(request, *arguments, **options)

    monkeypatch.setattr(messages.api, "add_message", say)


def test_an_administrator_who_deletes_the_own_account_is_told_that_it_is_deleted(admin_user: User) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    form = {"post": "yes", "typed": root.email}
    answer = proven(with_session(root)).post(f"/admin/accounts/user/{root.pk}/delete/", form)
    assert (answer.status_code, DONE in answer.content.decode()) == (200, True)
    assert not User.objects.filter(pk=root.pk).exists()


@pytest.mark.usefixtures("sign_out_meanwhile")
def test_a_form_that_was_saved_says_so_and_leads_to_the_next_page(alice: User) -> None:
    answer = with_session(alice).post("/accounts/profile", {"nickname": "Ali"})
    assert (answer.status_code, User.objects.get(pk=alice.pk).nickname) == (200, "Ali")
    assert DONE in answer.content.decode()
    assert 'href="/accounts/sign-in?next=%2Faccounts%2Fprofile"' in answer.content.decode()


COOKIE = settings.CSRF_COOKIE_NAME
NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE = "sent no cookie of this site", "came from another site", "open for too long"


@pytest.mark.parametrize("path", ["/accounts/sign-in", "/accounts/sign-up", "/accounts/password/reset"])
@pytest.mark.parametrize(
    ("cookie", "headers", "said", "cause"),
    [
        ("another", {}, NO_COOKIE, "csrf_no_cookie"),
        ("", {}, NO_COOKIE, "csrf_no_cookie"),
        ("a" * 32, {}, OUT_OF_DATE, "csrf"),
        ("", {"Origin": "https://evil.example"}, ANOTHER_SITE, "csrf_origin"),
        ("a" * 32, {"Origin": "null"}, ANOTHER_SITE, "csrf_origin"),
    ],
)
def test_a_form_that_is_refused_says_why_and_is_recorded(
    path: str, cookie: str, headers: dict[str, str], said: str, cause: str, settings: Any
) -> None:
    settings.SIGN_UP = "open"
    browser = Client(enforce_csrf_checks=True)
    if cookie:
        browser.cookies["theme" if cookie == "another" else COOKIE] = cookie
    answer = browser.post(path, {"login": "a@example.com", "csrfmiddlewaretoken": "b" * 32}, headers=headers)
    assert answer.status_code == (403 if said == NO_COOKIE else 303)
    page = (answer if said == NO_COOKIE else browser.get(answer["Location"])).content.decode()
    assert [text for text in (NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE) if text in page] == [said]
    recorded = ActivityRecord.objects.values_list("step", "cause", "reference")
    assert list(recorded) == [("sign_in", cause, answer["X-Reference"])]


@pytest.mark.parametrize(
    ("headers", "cookies", "said", "cause"),
    [
        ({}, True, "This page was out of date", "csrf"),
        ({}, False, "Your browser sent no cookie of this site", "csrf_no_cookie"),
        ({"Origin": "https://evil.example"}, True, "came from another site", "csrf_origin"),
    ],
)
def test_a_consent_that_is_refused_says_why_and_is_recorded(
    alice: User, headers: dict[str, str], cookies: bool, said: str, cause: str
) -> None:
    application = ApplicationFactory()
    browser = with_session(alice, enforce_csrf_checks=True)
    page = browser.get(link_of(application), headers=PAGE, follow=True).content.decode()
    pending = re.search(r'name="pending" value="([^"]+)"', page)
    assert pending
    form = {"decision": "allow", "pending": pending[1], "csrfmiddlewaretoken": "b" * 32}
    sender = browser if cookies else Client(enforce_csrf_checks=True)
    again = sender.post("/oauth/authorize", form, headers=headers)
    assert said in browser.get(again["Location"], headers=PAGE).content.decode()
    record = ActivityRecord.objects.get()
    assert (record.step, record.cause, record.client_id) == ("consent", cause, application.client_id)
    assert record.attempt


def test_a_database_that_is_away_ends_no_session(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django tells of it, when a session is stored, as of a session that has ended."""
    browser = with_session(alice, raise_request_exception=False)
    assert browser.post("/accounts/profile", {"nickname": "Ali"}).status_code == 302
    browser.get("/accounts/profile")  # the message is read, so the next one is stored

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Session, "save", fail)
    answer = browser.post("/accounts/profile", {"nickname": "Alice"})
    assert (answer.status_code, DONE in answer.content.decode()) == (503, False)
