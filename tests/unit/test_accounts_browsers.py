"""The page of signed-in browsers."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as django_settings
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


def marks(browser: Client) -> list[str]:
    return re.findall(r'name="browser" value="(\w+)"', browser.get(PAGE).content.decode())


# The list -------------------------------------------------------------------------------------------------------------


def test_the_page_is_for_people_signed_in(client: Client) -> None:
    for answer in (client.get(PAGE), client.post(PAGE, {"others": "1"})):
        assert answer["Location"] == f"/accounts/sign-in?next={PAGE}"


def test_this_browser_comes_first_and_is_marked(alice: User) -> None:
    here = browser_of(alice)
    browser_of(alice, SAFARI)
    browser_of(alice, CHROME)
    found = listed(here)
    assert [(each.name, each.is_this) for each in found[:1]] == [("Firefox on Linux", True)]
    assert {(each.name, each.is_hand_held) for each in found[1:]} == {
        ("Safari on iPhone", True),
        ("Chrome on Windows", False),
    }
    assert len(marks(here)) == 2, "this browser has no button"


def test_browsers_of_others_strangers_and_the_past_are_not_listed(alice: User) -> None:
    here = browser_of(alice)
    browser_of(PersonFactory())
    Client().get("/accounts/password/reset")
    browser_of(alice).post("/accounts/sign-out")
    ended = browser_of(alice, SAFARI)
    Session.objects.filter(user=alice, browser="Safari/iPhone").update(expire_date="2026-01-01T00:00Z")
    assert len(listed(here)) == 1
    assert not is_signed_in(ended)


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


def test_a_session_from_before_the_page_existed_is_listed(alice: User) -> None:
    here = browser_of(alice)
    Session.objects.update(browser="", last_used_at=None)
    assert [each.name for each in listed(here)] == ["Unknown browser"]


def test_neither_the_page_nor_the_table_has_a_key_a_digest_or_the_header(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice, SAFARI)
    page = here.get(PAGE).content.decode()
    rows = str(list(Session.objects.values()))
    for row in Session.objects.all():
        assert row.session_key not in page
    for browser in (here, there):
        assert browser.cookies[django_settings.SESSION_COOKIE_NAME].value not in page + rows
    assert "Mozilla" not in page + rows
    assert "AppleWebKit" not in page + rows


# Signing out ----------------------------------------------------------------------------------------------------------


def test_one_browser_is_signed_out_and_the_others_are_not(alice: User) -> None:
    here, lost, kept = browser_of(alice), browser_of(alice, SAFARI), browser_of(alice, CHROME)
    mark = next(each.mark for each in listed(here) if each.name == "Safari on iPhone")
    page = here.post(PAGE, {"browser": mark}, follow=True)
    assert b"That browser is signed out" in page.content
    assert [is_signed_in(each) for each in (here, lost, kept)] == [True, False, True]


def test_everywhere_else_is_signed_out(alice: User) -> None:
    here, others, bob = browser_of(alice), [browser_of(alice) for _ in range(3)], PersonFactory()
    his = browser_of(bob)
    here.post(PAGE, {"others": "1"})
    assert is_signed_in(here)
    assert not any(is_signed_in(each) for each in others)
    assert is_signed_in(his)


def test_mallory_ends_no_session_of_alice(alice: User) -> None:
    hers, mallory = browser_of(alice), browser_of(PersonFactory(nickname="Mallory"))
    row = Session.objects.get(user=alice)
    for mark in (listed(hers)[0].mark, row.session_key, "", "é" * 32, str(alice.pk)):
        assert mallory.post(PAGE, {"browser": mark, "user": str(alice.pk)}).status_code == 302
    mallory.post(PAGE, {"others": "1"})
    assert is_signed_in(hers)


def test_a_forged_form_ends_nothing(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = here.cookies
    assert strict.post(PAGE, {"others": "1"}).status_code == 403
    assert is_signed_in(there)


def test_this_browser_is_not_ended_by_its_own_mark(alice: User) -> None:
    here = browser_of(alice)
    here.post(PAGE, {"browser": listed(here)[0].mark})
    assert is_signed_in(here)


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
        assert writes() == 1
        assert writes() == 0
    after = Session.objects.get(user=alice).last_used_at
    assert before is not None
    assert after is not None
    assert (after - before).total_seconds() > 3600


@pytest.mark.parametrize(
    ("header", "described"),
    [
        (FIREFOX, "Firefox/Linux"),
        (SAFARI, "Safari/iPhone"),
        (CHROME, "Chrome/Windows"),
        (CHROME.replace("Safari/537.36", "Safari/537.36 Edg/141.0"), "Edge/Windows"),
        (
            "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/141.0 Mobile Safari/537.36",
            "Chrome/Android",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
            "Safari/macOS",
        ),
        ("curl/8.5.0", "/"),
        ("", "/"),
        ("<script>Firefox" + "x" * 100_000, "Firefox/"),
    ],
)
def test_a_header_becomes_two_words(header: str, described: str) -> None:
    assert describe(header) == described


# The date of the password ---------------------------------------------------------------------------------------------


def test_the_page_of_security_says_when_the_password_was_changed(alice: User) -> None:
    here = browser_of(alice)
    assert here.get("/accounts/security").context["changed_at"] is None
    here.post(
        "/accounts/password/change", {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    )
    page = here.get("/accounts/security")
    assert page.context["changed_at"] is not None
    assert b"Changed on" in page.content
