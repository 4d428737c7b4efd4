"""The administration in Chromium: the ways in and out; each page in light, dark and at 320 px; the keyboard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from accounts.models import AuditEntry
from oauth_bridge.activity import counts
from oauth_bridge.applications import registry
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.browser.conftest import Open, flaws, press
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered
from tests.grants import HTML, link_of


@pytest.fixture
def pages(driver: OAuthDriver, application: Registered) -> list[str]:
    person = PersonFactory(nickname="Ada Lovelace")
    Application.objects.filter(pk=application.row.pk).update(name="Wirtschaftsprüfung Nord-West Mandantenportal")
    Client().get(link_of(application, redirect_uri="https://www.client.example/callback"), **HTML)
    CodeFactory(application=application, user=person, issued_at=timezone.now() - timedelta(seconds=700))
    now = timezone.now()
    CodeFactory(application=application, user=person, redeemed_at=now, profile_read_at=now)
    ConsentFactory(application=application.row, user=person, fingerprint="x")
    changes = {"name": ["Portal", "Mandantenportal"], "redirect_uris": [[], ["https://client.example/" + "a" * 80]]}
    for kind, key in (("application", application.row.client_id), ("person", str(person.pk)), ("group", "0")):
        AuditEntry.objects.create(
            actor_name="Grace", action=f"{kind}_changed", kind=kind, key=key, name="", changes=changes
        )
    # Names and addresses without a place to break a line.
    long = ApplicationFactory(name="W" * 60).row
    named = PersonFactory(email=f"0{uuid4().hex}{'x' * 31}@{'y' * 60}.example", nickname="N" * 60, is_staff=True)
    long.owners.set([named])
    Application.objects.filter(pk=long.pk).update(
        homepage=f"https://{'a' * 60}.{'b' * 60}.example/",
        redirect_uris=f"http://{'a' * 60}.example/{'c' * 120}",
        is_enabled=False,
        disabled_at=now,
        disabled_by="N" * 60,
        disabled_reason="R" * 200,
    )
    group = Group.objects.create(name="G" * 150)
    group.user_set.set([person, named])
    registry.set_groups(long, [group])
    counts.count(now, long.client_id, Step.EXCHANGE, Outcome.FAILED, "secret_wrong")
    counts.flush()
    activity, acts = f"activity/?client_id={application.client_id}", ("new-secret", "switch-off", "trust", "owners")
    found = {
        "": ["", "find/?q=nothing", "trail/", "activity/", activity, f"{activity}&live={now.isoformat()[:19]}Z"],
        f"activity/{ActivityRecord.objects.latest('id').pk}/": [""],
        "oauth_bridge/application/": ["", "add/", f"{long.pk}/"],
        f"oauth_bridge/application/{application.row.pk}/": ["", "change/", "delete/", "history/"],
        f"oauth_bridge/application/{application.row.pk}/act/": [f"{act}/" for act in (*acts, "end-access")],
        "accounts/user/": [""],
        f"accounts/user/{person.pk}/": ["", "change/", "delete/", "?act=sign-out"],
        "auth/group/": ["", "add/", f"{group.pk}/", f"{group.pk}/change/"],
    }
    return [f"/admin/{folder}{page}" for folder, pages in found.items() for page in pages]


def test_each_page_is_right_in_each_look(administrator: Page, driver: OAuthDriver, pages: list[str]) -> None:
    page, wrong = administrator, []
    for path in pages:
        page.goto(driver.auth_url + path)
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true })")
        wrong += flaws(page)
    assert wrong == []


def test_the_board_ticks_each_step_at_once(administrator: Page, driver: OAuthDriver, application: Registered) -> None:
    page = administrator
    page.goto(driver.auth_url + reverse("admin:application", args=[application.row.pk]))
    expect(page.get_by_role("heading", name="Waiting for")).to_be_visible()
    press(page, page.get_by_role("link", name="Wait for a sign-in"))
    heading = page.locator("#board-heading")
    expect(heading).to_contain_text("Waiting for")
    code = CodeFactory(application=application)
    expect(heading).to_contain_text("got the person back")
    driver.userinfo(driver.exchange(application, code.raw).json()["access_token"])
    expect(heading).to_contain_text("works: it signed somebody in")


@pytest.mark.parametrize(("zone", "date", "clock"), [("Asia/Tokyo", 23, "02:05"), ("America/New_York", 22, "12:05")])
def test_times_are_in_the_zone_of_the_reader_in_each_language_and_in_utc_without_script(
    administrator: Page, open_browser: Open, driver: OAuthDriver, zone: str, date: int, clock: str
) -> None:
    """Only the numbers of day and time differ from the text of the server, so each browser has one format."""
    at = datetime(2026, 11, 22, 17, 5, 9, tzinfo=UTC)
    AuditEntry.objects.create(actor_name="Grace", action="group_changed", kind="group", key="0", name="", changes={})
    AuditEntry.objects.update(at=at)
    cookies = administrator.context.cookies()
    for language, _name in settings.LANGUAGES:
        texts = []
        for script in (False, True):
            context = open_browser(timezone_id=zone, locale=language, java_script_enabled=script)
            context.add_cookies(cookies)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{driver.auth_url}/admin/trail/")
            time = page.locator("main time").first
            texts.append(time.inner_text())
            assert time.get_attribute("datetime") == "2026-11-22T17:05:09Z"
            assert time.get_attribute("title") == texts[0].replace("17:05 UTC", "17:05:09 UTC")
        assert texts[1] == texts[0].replace("17:05 UTC", clock).replace("22", str(date)), language
