"""Sessions: filed under a digest, read with the person in one statement, and ended during a post."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Session, User
from accounts.sessions.store import SessionStore
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import PersonFactory
from tests.grants import Log
from tests.pages import admin_browser, browser_of, html_of, is_signed_in, sign_in, with_session

pytestmark = pytest.mark.django_db


def key_of(browser: Client) -> str:
    return browser.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.mark.parametrize("made_up", ["", "x", "\\000", "é" * 40, "a" * 4000, "%00" * 20, "b" * 32])
def test_nothing_is_stored_under_a_key_that_mallory_made_up(alice: User, made_up: str) -> None:
    victim = Client()
    victim.cookies[settings.SESSION_COOKIE_NAME] = made_up
    assert sign_in(victim, alice.email).status_code == 302
    assert (is_signed_in(victim), key_of(victim) != made_up, SessionStore(made_up).load()) == (True, True, {})


@pytest.mark.parametrize("change", [{"is_active": False}, {"password": make_password("another battery staple")}])
def test_a_session_ends_with_the_account_and_with_the_password(browser: Client, alice: User, change: Any) -> None:
    User.objects.filter(pk=alice.pk).update(**change)
    assert not is_signed_in(browser)
    assert Session.objects.exists() is ("is_active" in change)


def test_a_retired_key_keeps_people_signed_in_until_it_is_dropped(browser: Client, alice: User, settings: Any) -> None:
    left = with_session(alice)
    before = key_of(browser)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key that is long enough" * 2, [settings.SECRET_KEY]
    assert is_signed_in(browser)
    assert key_of(browser) == before, "open pages are bound to it"
    settings.SECRET_KEY_FALLBACKS = []
    assert [is_signed_in(each) for each in (browser, left)] == [True, False]


def test_an_administrator_who_deletes_the_own_account_is_told_of_the_sign_out(admin_user: User, event_log: Log) -> None:
    browser = admin_browser()
    root = User.objects.exclude(pk=admin_user.pk).get()
    answer = browser.post(f"/admin/accounts/user/{root.pk}/delete/", {"post": "yes", "typed": root.email})
    assert (answer.status_code, event_log.of("refused")) == (303, [])
    assert "This browser was signed out meanwhile" in html_of(browser.get(answer["Location"]))
    assert not User.objects.filter(pk=root.pk).exists()


NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE = "sent no cookie of this site", "came from another site", "open for too long"


@pytest.mark.parametrize(
    ("cookie", "origin", "said", "cause"),
    [
        ("theme", "http://testserver", NO_COOKIE, "csrf_no_cookie"),
        (settings.CSRF_COOKIE_NAME, "http://testserver", OUT_OF_DATE, "csrf"),
        (settings.CSRF_COOKIE_NAME, "https://evil.example", ANOTHER_SITE, "csrf_origin"),
        (settings.CSRF_COOKIE_NAME, "null", ANOTHER_SITE, "csrf_origin"),
    ],
)
def test_a_form_that_is_refused_says_why_and_is_recorded(cookie: str, origin: str, said: str, cause: str) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.cookies[cookie] = "a" * 32
    form = {"login": "a@example.com", "csrfmiddlewaretoken": "b" * 32}
    answer = browser.post("/accounts/sign-in", form, headers={"Origin": origin})
    assert answer.status_code == (403 if said == NO_COOKIE else 303)
    page = html_of(answer if said == NO_COOKIE else browser.get(answer["Location"]))
    assert [text for text in (NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE) if text in page] == [said]
    recorded = ActivityRecord.objects.values_list("step", "cause", "reference")
    assert list(recorded) == [("sign_in", cause, answer["X-Reference"])]


def test_a_database_that_is_away_ends_no_session(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = with_session(alice, raise_request_exception=False)
    assert browser.post("/accounts/profile", {"nickname": "Ali"}).status_code == 302
    browser.get("/accounts/profile")  # the message is read, so the next one is stored

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Session, "save", fail)
    assert browser.post("/accounts/profile", {"nickname": "Alice"}).status_code == 503


BROWSERS = "/accounts/browsers"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0.0.0 Safari/537.36"


def test_this_browser_is_listed_first_and_the_others_are_signed_out_one_by_one_or_at_once(alice: User) -> None:
    here, lost, kept = browser_of(alice), browser_of(alice, SAFARI), browser_of(alice, CHROME)
    his = browser_of(PersonFactory())
    browser_of(alice).post("/accounts/sign-out")
    page = here.get(BROWSERS)
    first, *others = page.context["browsers"]
    assert (first["name"], first["is_this"]) == ("Firefox on Linux", True)
    marks = {each["name"]: each["digest"] for each in others}
    assert set(marks) == {"Safari on iPhone", "Chrome on Windows"}
    text, rows = html_of(page), str(list(Session.objects.values()))
    assert len(re.findall(r'name="browser" value="\w+"', text)) == 2, "this browser has no button"
    assert re.findall(f"Mozilla|AppleWebKit|{key_of(here)}|{key_of(lost)}", text + rows) == []
    page = here.post(BROWSERS, {"browser": marks["Safari on iPhone"]}, follow=True)
    assert b"That browser is signed out" in page.content
    assert [is_signed_in(each) for each in (here, lost, kept, his)] == [True, False, True, True]
    here.post(BROWSERS, {"browser": first["digest"]})
    assert is_signed_in(here), "it is not ended by its own mark"
    Session.objects.filter(user=alice, browser="Chrome/Windows").update(expire_date="2026-01-01T00:00Z")
    assert [each["name"] for each in here.get(BROWSERS).context["browsers"]] == ["Firefox on Linux"]
    another = browser_of(alice, CHROME)
    here.post(BROWSERS, {"others": "1"})
    assert [is_signed_in(each) for each in (here, kept, another, his)] == [True, False, False, True]


def test_neither_mallory_nor_a_forged_form_ends_a_session_of_alice(client: Client, alice: User) -> None:
    assert client.post(BROWSERS, {"others": "1"})["Location"] == f"/accounts/sign-in?next={BROWSERS}"
    hers, mallory = browser_of(alice), browser_of(PersonFactory(nickname="Mallory"))
    for form in ({"browser": Session.objects.get(user=alice).session_key}, {"browser": "é" * 32}, {"others": "1"}):
        assert mallory.post(BROWSERS, {"user": str(alice.pk), **form}).status_code == 302
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser_of(alice).cookies
    assert strict.post(BROWSERS, {"others": "1"}).status_code == 303
    assert is_signed_in(hers)


def test_the_hour_of_the_last_use_is_shown_and_stored_once_an_hour(alice: User) -> None:
    noon = datetime(2026, 11, 22, 12, 5, tzinfo=UTC)
    with time_machine.travel(noon, tick=False):
        there = browser_of(alice)
    for minutes, writes in ((59, 0), (61, 1), (62, 0)):
        with time_machine.travel(noon + timedelta(minutes=minutes)), CaptureQueriesContext(connection) as statements:
            there.get("/accounts/security")
        assert sum(query["sql"].startswith("UPDATE") for query in statements) == writes
    with time_machine.travel(noon + timedelta(hours=5)):
        page = browser_of(alice).get(BROWSERS).content.decode()
    told = re.findall(r'(Signed in on|Last used) <time datetime="2026-11-22T(\d\d:\d\d)', page)
    assert told == [("Signed in on", "17:05"), ("Signed in on", "12:05"), ("Last used", "13:06")]
