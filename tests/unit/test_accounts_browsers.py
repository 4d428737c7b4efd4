"""The page of signed-in browsers."""

from __future__ import annotations

import re
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
from tests.factories import PersonFactory
from tests.pages import browser_of, is_signed_in

pytestmark = pytest.mark.django_db

PAGE = "/accounts/browsers"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0.0.0 Safari/537.36"


def listed(browser: Client) -> list[Any]:
    return list(browser.get(PAGE).context["browsers"])


# The list -------------------------------------------------------------------------------------------------------------


def test_this_browser_comes_first_and_those_that_are_signed_in_follow(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice, SAFARI)
    browser_of(alice, CHROME)
    browser_of(PersonFactory())
    browser_of(alice).post("/accounts/sign-out")
    page = here.get(PAGE)
    first, *others = page.context["browsers"]
    assert (first["name"], first["is_this"]) == ("Firefox on Linux", True)
    assert {each["name"]: each["is_hand_held"] for each in others} == {
        "Safari on iPhone": True,
        "Chrome on Windows": False,
    }
    text, rows = page.content.decode(), str(list(Session.objects.values()))
    assert len(re.findall(r'name="browser" value="\w+"', text)) == 2, "this browser has no button"
    told = [row.session_key for row in Session.objects.all() if row.session_key in text]
    told += [each for each in (here, there) if each.cookies[settings.SESSION_COOKIE_NAME].value in text + rows]
    assert told + re.findall("Mozilla|AppleWebKit", text + rows) == []
    Session.objects.filter(user=alice, browser="Safari/iPhone").update(expire_date="2026-01-01T00:00Z")
    assert [each["name"] for each in listed(here)] == ["Firefox on Linux", "Chrome on Windows"]
    assert not is_signed_in(there)


def test_a_long_list_has_pages_and_each_signs_out(alice: User) -> None:
    here, ends = browser_of(alice), timezone.now() + timedelta(days=1)
    Session.objects.bulk_create(Session(session_key=str(n), user=alice, expire_date=ends) for n in range(15))
    first, second = (here.get(f"{PAGE}?page={number}") for number in (1, 2))
    assert [len(each.context["browsers"]) for each in (first, second)] == [10, 6]
    assert 'href="?page=2" rel="next"' in first.content.decode()
    mark = second.context["browsers"][3]["mark"]
    assert here.post(f"{PAGE}?page=2", {"browser": mark})["Location"] == f"{PAGE}?page=2"
    assert len(here.get(f"{PAGE}?page=2").context["browsers"]) == 5
    assert [here.get(f"{PAGE}?page={page}").status_code for page in ("", "0", "x", "9" * 400)] == [200] * 4


# Signing out ----------------------------------------------------------------------------------------------------------


def test_one_browser_is_signed_out_and_then_all_others(alice: User) -> None:
    here, lost, kept = browser_of(alice), browser_of(alice, SAFARI), browser_of(alice, CHROME)
    his = browser_of(PersonFactory())
    marks = {each["name"]: each["mark"] for each in listed(here)}
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
    for mark in (listed(hers)[0]["mark"], row.session_key, "", "é" * 32, str(alice.pk)):
        assert mallory.post(PAGE, {"browser": mark, "user": str(alice.pk)}).status_code == 302
    mallory.post(PAGE, {"others": "1"})
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser_of(alice).cookies
    assert strict.post(PAGE, {"others": "1"}).status_code == 303
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
        page = browser_of(alice).get(PAGE).content.decode()
    told = re.findall(r'(Signed in on|Last used) <time datetime="2026-11-22T(\d\d:\d\d)', page)
    assert told == [("Signed in on", "17:05"), ("Signed in on", "12:05"), ("Last used", "13:06")]
