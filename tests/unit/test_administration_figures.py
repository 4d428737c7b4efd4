"""The figures of the pages, which all count the same, and `application check`: what fails and what is risky. D24."""

from __future__ import annotations

import html
import io
import json
import re
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts, statistics
from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.administration import checks
from oauth_bridge.applications import registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.grants import HTML, Attempt
from tests.pages import admin_page, html_of, staff, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/oauth_bridge/application/"
MISMATCH = "The callback address isn’t registered"


def count(client_id: str, hour: datetime, cause: str = "", number: int = 1) -> None:
    outcome = Outcome.REFUSED if cause else Outcome.SUCCEEDED
    at = hour.replace(minute=0, second=0, microsecond=0)
    ActivityCount.objects.create(
        hour=at, client_id=client_id, step=Step.EXCHANGE, outcome=outcome, cause=cause, number=number
    )


def test_a_cause_leads_to_its_attempts_at_once(grace: Client) -> None:
    attempt = Attempt(name="Reading List")
    attempt.browser.get(attempt.link(redirect_uri="https://www.client.example/callback"), **HTML)
    counts.flush()
    overview, own = (grace.get(each) for each in ("/admin/", admin_page(attempt.application.row)))
    assert "1 application turns people away" in text_of(overview)
    assert f"{MISMATCH} New Start, Reading List 1" in text_of(overview)
    assert "Reading List Failing" in text_of(own)
    for page in (overview, own):
        (url,) = re.findall(r'href="(/admin/activity/\?[^"]*cause=[^"]*)"', html_of(page))
        shown = grace.get(html.unescape(url))
        of_cause = html_of(shown)
        assert of_cause.count("<details open>") == 1, "the latest is open"
        assert reverse("admin:record", args=[ActivityRecord.objects.get().pk]) in of_cause
        assert f"<h1>{MISMATCH}</h1>" in of_cause
        for said in (" 1 time since ", f"{MISMATCH} (1)"):
            assert said in text_of(shown)


def test_a_cause_without_a_record_still_says_what_to_change_but_not_above_the_attempts_of_one(grace: Client) -> None:
    client_id, kept = ApplicationFactory().client_id, "Counted, but no record of it is kept"
    count(client_id, timezone.now(), "secret_wrong", 7)
    url = f"/admin/activity/?cause=secret_wrong&client_id={client_id}"
    assert f"{kept} Fix: No secret of this application matches the one that was sent." in text_of(grace.get(url))
    said = text_of(grace.get(f"{url}&who=nobody@example.org"))
    assert (kept in said, "Nothing fits" in said) == (False, True)


@pytest.mark.integration
def test_every_page_counts_the_same_failures_and_sign_ins(grace: Client) -> None:
    application = ApplicationFactory()
    day, month, hour = statistics.start_of(1), statistics.start_of(30), timedelta(hours=1)
    for at, cause, number in (
        *((day, "secret_wrong", 3), (day - hour, "secret_wrong", 5), (month - hour, "secret_wrong", 100)),
        *((day, "", 2), (month, "", 4), (month - hour, "", 100)),
    ):
        count(application.client_id, at, cause, number)
    expired = timezone.now() - timedelta(minutes=1)
    CodeFactory(application=application, issued_at=expired - timedelta(minutes=10))
    counts.record_never_exchanged(expired - timedelta(days=1))
    counts.flush()
    for path, said in (
        ("/admin/", "4 failures, 2 finished sign-ins. Day before: 5 failures, 0 finished sign-ins"),
        ("/admin/activity/", "4 failures, 2 finished sign-ins"),
        ("/admin/activity/?days=30", "9 failures, 6 finished sign-ins"),
        (LIST, "4 failed in 24 h"),
        (admin_page(application.row), "Sign-ins, 24 hours 2 Sign-ins, 30 days 6"),
        (admin_page(application.row), "Failures, 30 days 9"),
    ):
        assert said in text_of(grace.get(path)), path


def test_the_overview_counts_the_applications_that_the_list_calls_failing(grace: Client) -> None:
    """What an application was refused while it was switched off is no failure once it is on again."""
    rare, often, again, off = *(ApplicationFactory() for _ in range(3)), ApplicationFactory(is_enabled=False)
    for each, finished, cause in (
        (rare, 100, NEVER_EXCHANGED),
        (often, 1, NEVER_EXCHANGED),
        (again, 1, "client_disabled"),
        (off, 1, NEVER_EXCHANGED),
    ):
        count(each.client_id, timezone.now(), cause)
        count(each.client_id, timezone.now(), number=finished)
    assert "1 application turns people away" in text_of(grace.get("/admin/"))
    assert text_of(grace.get(LIST)).count("Failing") == 1


def test_the_last_sign_in_is_a_redeemed_code_and_not_a_use_of_the_secret() -> None:
    application, now = ApplicationFactory(), timezone.now()
    application.row.secrets.update(last_used_at=now)
    hour = (now - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)

    def last() -> datetime | None:
        return checks.summaries([application.row])[application.row.pk].last_at

    assert last() is None
    count(application.client_id, hour)
    assert last() == hour
    code = CodeFactory(application=application, redeemed_at=now - timedelta(minutes=7))
    assert last() == code.row.redeemed_at


def check(client_id: str) -> tuple[int, list[tuple[str, bool]]]:
    """The exit code, and the code of each finding with whether a sign-in would fail."""
    out, status = io.StringIO(), 0
    try:
        call_command("application", "check", client_id, "--json", stdout=out)
    except CommandError as error:
        status = error.returncode
    found = json.loads(out.getvalue())
    assert found["would_fail"] == bool(status)
    return status, [(each["code"], each["would_fail"]) for each in found["findings"]]


def test_without_a_secret_that_works_or_a_person_it_would_fail(application: Registered) -> None:
    for change in ({"expires_at": timezone.now() - timedelta(minutes=1)}, {"expires_at": None, "is_revoked": True}):
        ApplicationSecret.objects.update(**change)
        assert check(application.client_id) == (1, [("no_secret", True)])
    secret_rotation.rotate(application.row)
    for client_id in (application.client_id, ApplicationFactory(client_type="public").client_id):
        assert check(client_id) == (0, [])
    group = Group.objects.create(name="readers")
    registry.set_groups(application.row, [group])
    PersonFactory(is_active=False).groups.add(group)
    nobody = (1, [("nobody_admitted", True)])
    found = [check(application.client_id)]
    User.objects.update(is_active=True)
    found.append(check(application.client_id))
    group.delete()
    assert [*found, check(application.client_id)] == [nobody, (0, []), nobody]


def test_an_end_of_a_secret_and_three_months_without_a_sign_in_are_told(application: Registered) -> None:
    for days, found in ((29, [("secret_ends", False)]), (31, [])):
        ApplicationSecret.objects.update(expires_at=timezone.now() + timedelta(days=days))
        assert check(application.client_id) == (0, found)
    for days, found in ((89, []), (91, [("unused", False)]), (0, [])):
        Application.objects.update(created=timezone.now() - timedelta(days=days))
        assert check(application.client_id) == (0, found)
    secret_rotation.rotate(application.row, timedelta(days=2))
    assert check(application.client_id) == (0, [])
    used_at = timezone.now() + timedelta(minutes=1)
    ApplicationSecret.objects.filter(number=1).update(last_used_at=used_at)
    assert check(application.client_id) == (0, [("old_secret_used", False)])


def test_addresses_are_looked_at(application: Registered) -> None:
    for address, is_trusted, codes in (
        ("http://app.example/cb", False, ["address_refused_today"]),
        ("http://127.0.0.1:9000/cb", True, ["trusted_without_https"]),
        ("http://127.0.0.1/cb", False, ["address_hint"]),
        ("https://intranet:443/", False, ["address_hint"] * 3),
    ):
        Application.objects.update(redirect_uris=address, is_trusted=is_trusted)
        assert check(application.client_id) == (0, [(code, False) for code in codes]), address


def test_failures_of_the_last_day_are_told_with_cause_and_fix_to_who_may_see_the_activity() -> None:
    attempt, out = Attempt(), io.StringIO()
    call_command("application", "check", attempt.application.client_id, stdout=out)
    assert out.getvalue() == "Nothing is wrong.\n"
    for _ in range(2):
        attempt.browser.get(attempt.link(redirect_uri="https://mallory.example/"), **HTML)
    counts.flush()
    assert check(attempt.application.client_id) == (0, [("failed_lately", False)])
    call_command("application", "check", attempt.application.client_id, stdout=out)
    assert f"look at: {MISMATCH}: 2 times in 24 hours. Compare" in out.getvalue()
    assert "callback address isn’t" not in text_of(staff("view_application").get(admin_page(attempt.application.row)))
