"""What would make a sign-in fail, and what is risky: `application check` and the application's page. D24."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts
from oauth_bridge.applications import registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret
from tests.factories import ApplicationFactory, PersonFactory, Registered
from tests.grants import HTML, Attempt
from tests.pages import admin_page, html_of, staff, text_of

pytestmark = pytest.mark.django_db


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


def update(application: Registered, **fields: Any) -> None:
    Application.objects.filter(pk=application.row.pk).update(**fields)


def test_without_a_secret_that_works_it_would_fail(application: Registered) -> None:
    for change in ({"expires_at": timezone.now() - timedelta(minutes=1)}, {"expires_at": None, "is_revoked": True}):
        ApplicationSecret.objects.update(**change)
        assert check(application.client_id) == (1, [("no_secret", True)])
    ApplicationSecret.objects.all().delete()  # as the configuration file registers it
    assert check(application.client_id) == (1, [("no_secret", True)])
    secret_rotation.rotate(application.row)
    for client_id in (application.client_id, ApplicationFactory(client_type="public").client_id):
        assert check(client_id) == (0, [])
    out = io.StringIO()
    call_command("application", "check", application.client_id, stdout=out)
    assert out.getvalue() == "Nothing is wrong.\n"


def test_for_groups_without_anybody_who_can_sign_in_it_would_fail(application: Registered) -> None:
    group = Group.objects.create(name="readers")
    registry.set_groups(application.row, [group])
    PersonFactory(is_active=False).groups.add(group)
    assert check(application.client_id) == (1, [("nobody_admitted", True)])
    User.objects.update(is_active=True)
    assert check(application.client_id) == (0, [])
    group.delete()
    assert check(application.client_id) == (1, [("nobody_admitted", True)])


def test_a_secret_that_ends_or_is_still_used_and_three_months_without_a_sign_in_are_told(
    application: Registered,
) -> None:
    for days, found in ((29, [("secret_ends", False)]), (31, [])):
        ApplicationSecret.objects.update(expires_at=timezone.now() + timedelta(days=days))
        assert check(application.client_id) == (0, found)
    for days, found in ((89, []), (91, [("unused", False)]), (0, [])):
        update(application, created=timezone.now() - timedelta(days=days))
        assert check(application.client_id) == (0, found)
    secret_rotation.rotate(application.row, timedelta(days=2))
    assert check(application.client_id) == (0, [])
    used_at = timezone.now() + timedelta(minutes=1)
    ApplicationSecret.objects.filter(number=1).update(last_used_at=used_at)
    assert check(application.client_id) == (0, [("old_secret_used", False)])


@pytest.mark.parametrize(
    ("address", "is_trusted", "codes"),
    [
        ("http://app.example/cb", False, ["address_refused_today"]),
        ("http://127.0.0.1:9000/cb", True, ["trusted_without_https"]),
        ("http://127.0.0.1/cb", False, ["address_hint"]),
        ("https://intranet:443/", False, ["address_hint"] * 3),
    ],
)
def test_addresses_are_looked_at(application: Registered, address: str, is_trusted: bool, codes: list[str]) -> None:
    update(application, redirect_uris=address, is_trusted=is_trusted)
    assert check(application.client_id) == (0, [(code, False) for code in codes])


def test_failures_of_the_last_day_are_told_with_cause_and_fix_to_who_may_see_the_activity(settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = False
    attempt, out = Attempt(), io.StringIO()
    for _ in range(2):
        attempt.browser.get(attempt.link(redirect_uri="https://mallory.example/"), **HTML)
    counts.flush()
    assert check(attempt.application.client_id) == (0, [("failed_lately", False)])
    call_command("application", "check", attempt.application.client_id, stdout=out)
    assert out.getvalue().startswith("look at: The callback address isn’t registered: 2 times in 24 hours. Compare")
    said = text_of(staff("view_application").get(admin_page(attempt.application.row)))
    assert attempt.application.row.name in said
    assert "callback address isn’t registered" not in said


def test_the_report_shows_no_character_that_steers_a_terminal(application: Registered) -> None:
    update(application, redirect_uris="https://a.example/\x1b[2J\u202e", name="a\x1b[2J", is_enabled=False)
    out = io.StringIO()
    with pytest.raises(CommandError) as error:
        call_command("application", "check", application.client_id, stdout=out)
    assert (out.getvalue() + str(error.value)).replace("\n", "").isprintable()
    with pytest.raises(CommandError, match="no application with the client_id nobody"):
        call_command("application", "check", "nobody")


def test_the_page_of_the_application_says_the_same(admin_client: Client, application: Registered) -> None:
    page = admin_page(application.row)
    assert "A sign-in would fail." not in text_of(admin_client.get(page))
    update(application, is_enabled=False, redirect_uris="http://a.example/<script>alert(1)</script>")
    answer = admin_client.get(page)
    assert "A sign-in would fail. It is switched off" in text_of(answer)
    assert "<script>alert" not in html_of(answer)
