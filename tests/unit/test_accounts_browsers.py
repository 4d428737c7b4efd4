"""The page of signed-in browsers."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions.user_agents import describe
from tests.factories import PASSWORD, PersonFactory
from tests.pages import FIREFOX, NEW_PASSWORD, browser_of, is_signed_in

pytestmark = pytest.mark.django_db

PAGE = "/accounts/browsers"
SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
)
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
)


def listed(browser: Client) -> list[Any]:
    return list(browser.get(PAGE).context["browsers"])


# The list -------------------------------------------------------------------------------------------------------------


def test_this_browser_comes_first_and_those_that_are_signed_in_follow(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice, SAFARI)
    browser_of(alice, CHROME)
    browser_of(PersonFactory())
    Client().get("/accounts/password/reset")
    browser_of(alice).post("/accounts/sign-out")
    page = here.get(PAGE)
    first, *others = page.context["browsers"]
    assert (first.name, first.is_this) == ("Firefox on Linux", True)
    assert {(each.name, each.is_hand_held) for each in others} == {
        ("Safari on iPhone", True),
        ("Chrome on Windows", False),
    }
    text, rows = page.content.decode(), str(list(Session.objects.values()))
    assert len(re.findall(r'name="browser" value="\w+"', text)) == 2, "this browser has no button"
    told = [row.session_key for row in Session.objects.all() if row.session_key in text]
    told += [each for each in (here, there) if each.cookies[settings.SESSION_COOKIE_NAME].value in text + rows]
    assert told == []
    assert not re.search("Mozilla|AppleWebKit", text + rows)
    Session.objects.filter(user=alice, browser="Safari/iPhone").update(expire_date="2026-01-01T00:00Z")
    assert [each.name for each in listed(here)] == ["Firefox on Linux", "Chrome on Windows"]
    assert not is_signed_in(there)
    Session.objects.filter(browser="Firefox/Linux").update(browser="", last_used_at=None)  # of an earlier release
    assert listed(here)[0].name == "Unknown browser"


def test_browsers_of_one_name_are_told_apart_by_the_hour(alice: User) -> None:
    with time_machine.travel(datetime(2026, 11, 22, 8, 5, tzinfo=UTC), tick=False):
        browser_of(alice)
    with time_machine.travel(datetime(2026, 11, 22, 17, 5, tzinfo=UTC), tick=False):
        page = browser_of(alice).get(PAGE).content.decode()
    assert re.findall(r"(Signed in|Last used) on 22 November 2026, (\d\d:\d\d)<", page) == [
        ("Signed in", "17:05"),
        ("Signed in", "08:05"),
        ("Last used", "08:05"),
    ]


def test_a_long_list_has_pages_and_each_signs_out(alice: User) -> None:
    here = browser_of(alice)
    names = [f"Browser {number:02}/Linux" for number in range(15)]
    Session.objects.bulk_create(
        Session(session_key=name, user=alice, browser=name, expire_date=timezone.now() + timedelta(days=1))
        for name in names
    )
    first, second = (here.get(f"{PAGE}?page={number}") for number in (1, 2))
    assert [len(each.context["browsers"]) for each in (first, second)] == [10, 6]
    assert first.context["browsers"][0].is_this
    assert "Page 1 of 2" in first.content.decode()
    assert 'href="?page=2" rel="next"' in first.content.decode()
    assert 'href="?page=1" rel="prev"' in second.content.decode()
    mark = second.context["browsers"][3].mark
    assert here.post(f"{PAGE}?page=2", {"browser": mark})["Location"] == f"{PAGE}?page=2"
    assert len(here.get(f"{PAGE}?page=2").context["browsers"]) == 5
    assert [here.get(f"{PAGE}?page={page}").status_code for page in ("", "0", "99", "x", "9" * 400)] == [200] * 5


# Signing out ----------------------------------------------------------------------------------------------------------


def test_one_browser_is_signed_out_and_then_all_others(alice: User) -> None:
    here, lost, kept = browser_of(alice), browser_of(alice, SAFARI), browser_of(alice, CHROME)
    his = browser_of(PersonFactory())
    marks = {each.name: each.mark for each in listed(here)}
    page = here.post(PAGE, {"browser": marks["Safari on iPhone"]}, follow=True)
    assert b"That browser is signed out" in page.content
    assert [is_signed_in(each) for each in (here, lost, kept, his)] == [True, False, True, True]
    here.post(PAGE, {"browser": marks["Firefox on Linux"]})
    assert is_signed_in(here), "it is not ended by its own mark"
    here.post(PAGE, {"others": "1"})
    assert [is_signed_in(each) for each in (here, kept, his)] == [True, False, True]


def test_neither_mallory_nor_a_forged_form_ends_a_session_of_alice(client: Client, alice: User) -> None:
    for answer in (client.get(PAGE), client.post(PAGE, {"others": "1"})):
        assert answer["Location"] == f"/accounts/sign-in?next={PAGE}"
    hers, mallory = browser_of(alice), browser_of(PersonFactory(nickname="Mallory"))
    row = Session.objects.get(user=alice)
    for mark in (listed(hers)[0].mark, row.session_key, "", "é" * 32, str(alice.pk)):
        assert mallory.post(PAGE, {"browser": mark, "user": str(alice.pk)}).status_code == 302
    mallory.post(PAGE, {"others": "1"})
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser_of(alice).cookies
    assert strict.post(PAGE, {"others": "1"}).status_code == 403
    assert is_signed_in(hers)


# When it was last used ------------------------------------------------------------------------------------------------


def test_the_use_is_stored_once_an_hour(alice: User) -> None:
    here = browser_of(alice)
    before = Session.objects.get(user=alice).last_used_at

    def writes() -> int:
        with CaptureQueriesContext(connection) as statements:
            here.get("/accounts/security")
        return sum(query["sql"].startswith("UPDATE") for query in statements)

    assert writes() == 0
    with time_machine.travel(time.time() + 3590):
        assert writes() == 0
    with time_machine.travel(time.time() + 3610):
        assert [writes(), writes()] == [1, 0]
    assert Session.objects.filter(user=alice, last_used_at__gt=before + timedelta(hours=1)).exists()


def test_a_header_becomes_two_words() -> None:
    android = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/141.0 Mobile Safari/537.36"
    mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15"
    described = {
        FIREFOX: "Firefox/Linux",
        SAFARI: "Safari/iPhone",
        CHROME: "Chrome/Windows",
        CHROME + " Edg/141.0": "Edge/Windows",
        android: "Chrome/Android",
        mac: "Safari/macOS",
        "curl/8.5.0": "/",
        "": "/",
        "<script>Firefox" + "x" * 100_000: "Firefox/",
    }
    assert {header: describe(header) for header in described} == described


# The date of the password ---------------------------------------------------------------------------------------------


def test_the_page_of_security_says_when_the_password_was_changed(alice: User) -> None:
    here = browser_of(alice)
    assert here.get("/accounts/security").context["changed_at"] is None
    new = dict.fromkeys(("password1", "password2"), NEW_PASSWORD)
    here.post("/accounts/password/change", {"oldpassword": PASSWORD, **new})
    page = here.get("/accounts/security")
    assert page.context["changed_at"] is not None
    assert b"Changed on" in page.content
