"""What would make a sign-in fail, and what is risky: `application check` and the application's page. D24."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import User
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.storage import activity_counts, applications, secret_rotation, secret_states
from tests.events import HTML, Attempt
from tests.factories import ApplicationFactory, PersonFactory, Registered
from tests.pages import with_session
from tests.unit.test_administration import text_of

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
    assert all(each["problem"] for each in found["findings"])
    return status, [(each["code"], each["would_fail"]) for each in found["findings"]]


def update(registered: Registered, **fields: Any) -> None:
    Application.objects.filter(pk=registered.row.pk).update(**fields)


@pytest.fixture
def registered() -> Registered:
    made: Registered = ApplicationFactory()
    return made


def test_nothing_is_wrong_with_a_new_application(registered: Registered) -> None:
    assert check(registered.client_id) == (0, [])
    out = io.StringIO()
    call_command("application", "check", registered.client_id, stdout=out)
    assert out.getvalue() == "Nothing is wrong.\n"


def test_a_public_application_needs_no_secret() -> None:
    assert check(ApplicationFactory(client_type="public").client_id) == (0, [])


def test_a_switched_off_application_would_fail(registered: Registered) -> None:
    update(registered, is_enabled=False)
    assert check(registered.client_id) == (1, [("switched_off", True)])


@pytest.mark.parametrize("change", [{"is_revoked": True}, {"expires_at": timezone.now() - timedelta(minutes=1)}])
def test_without_a_secret_that_works_it_would_fail(registered: Registered, change: dict[str, Any]) -> None:
    ApplicationSecret.objects.update(**change)
    assert check(registered.client_id) == (1, [("no_secret", True)])
    ApplicationSecret.objects.all().delete()
    assert check(registered.client_id) == (1, [("no_secret", True)])


def test_what_apply_has_registered_would_fail_until_it_has_a_secret() -> None:
    row = Application(name="New", redirect_uris="https://new.example/cb")
    applications.add(row, ())
    assert check(row.client_id) == (1, [("no_secret", True)])
    secret_rotation.rotate(row)
    assert check(row.client_id) == (0, [])


def test_for_groups_without_anybody_who_can_sign_in_it_would_fail(registered: Registered) -> None:
    group = Group.objects.create(name="readers")
    applications.set_groups(registered.row, [group])
    assert check(registered.client_id) == (1, [("nobody_admitted", True)])
    alice = PersonFactory(is_active=False)
    alice.groups.add(group)
    assert check(registered.client_id)[0] == 1
    User.objects.filter(pk=alice.pk).update(is_active=True)
    assert check(registered.client_id) == (0, [])
    group.delete()
    assert check(registered.client_id) == (1, [("nobody_admitted", True)])


@pytest.mark.parametrize(("days", "found"), [(29, [("secret_ends", False)]), (31, [])])
def test_the_end_of_the_last_secret_is_told_a_month_before(registered: Registered, days: int, found: Any) -> None:
    ApplicationSecret.objects.update(expires_at=timezone.now() + timedelta(days=days))
    assert check(registered.client_id) == (0, found)


def test_an_old_secret_that_is_still_used_is_told(registered: Registered) -> None:
    secret_rotation.rotate(registered.row, timedelta(days=2))
    assert check(registered.client_id) == (0, [])
    old = registered.row.secrets.get(number=1)
    ApplicationSecret.objects.filter(pk=old.pk).update(last_used_at=timezone.now() + timedelta(minutes=1))
    assert check(registered.client_id) == (0, [("old_secret_used", False)])


@pytest.mark.parametrize(
    ("address", "is_trusted", "codes"),
    [
        ("http://app.example/cb", False, ["address_refused_today"]),
        ("https://*.example/cb", False, ["address_refused_today"]),
        ("http://127.0.0.1/cb", True, ["trusted_without_https"]),
        ("http://127.0.0.1/cb", False, []),
        ("https://app.example", False, ["address_hint"]),
        ("https://intranet:443/", False, ["address_hint"] * 3),
        ("com.example.app:/cb", True, []),
    ],
)
def test_addresses_are_looked_at(registered: Registered, address: str, is_trusted: bool, codes: list[str]) -> None:
    update(registered, redirect_uris=address, is_trusted=is_trusted)
    assert check(registered.client_id) == (0, [(code, False) for code in codes])


@pytest.mark.parametrize(("days", "found"), [(89, []), (91, [("unused", False)])])
def test_three_months_without_a_sign_in_are_told(registered: Registered, days: int, found: Any) -> None:
    update(registered, created=timezone.now() - timedelta(days=days))
    assert check(registered.client_id) == (0, found)


def test_failures_of_the_last_day_are_told_with_cause_and_fix() -> None:
    attempt = Attempt()
    for _ in range(2):
        attempt.browser.get(attempt.link(redirect_uri="https://mallory.example/"), **HTML)
    activity_counts.flush()
    assert check(attempt.application.client_id) == (0, [("failed_lately", False)])
    out = io.StringIO()
    call_command("application", "check", attempt.application.client_id, stdout=out)
    assert out.getvalue().startswith("look at: The callback address isn’t registered: 2 times in 24 hours. Compare")


def test_what_would_fail_comes_first(registered: Registered) -> None:
    update(registered, is_enabled=False, created=timezone.now() - timedelta(days=91), redirect_uris="http://a.example/")
    ApplicationSecret.objects.all().delete()
    status, found = check(registered.client_id)
    assert status == 1
    assert [would_fail for _, would_fail in found] == [True, True, False, False]


def test_the_report_shows_no_character_that_steers_a_terminal(registered: Registered) -> None:
    update(registered, redirect_uris="https://a.example/\x1b[2J\u202e", name="a\x1b[2J", is_enabled=False)
    out = io.StringIO()
    with pytest.raises(CommandError) as error:
        call_command("application", "check", registered.client_id, stdout=out)
    assert (out.getvalue() + str(error.value)).replace("\n", "").isprintable()


def test_an_unknown_client_id_is_named() -> None:
    with pytest.raises(CommandError, match="no application with the client_id nobody"):
        call_command("application", "check", "nobody")


# The administration ---------------------------------------------------------------------------------------------------


def page(browser: Client, registered: Registered) -> str:
    return text_of(browser.get(f"/admin/oauth_bridge/application/{registered.row.pk}/"))


def test_the_page_of_the_application_says_the_same(admin_client: Client, registered: Registered) -> None:
    assert "A sign-in would fail." not in page(admin_client, registered)
    ApplicationSecret.objects.update(is_revoked=True)
    said = page(admin_client, registered)
    assert "A sign-in would fail. It has no client secret that works. Make a new one" in said
    update(registered, is_enabled=False)
    assert "A sign-in would fail. It is switched off" in page(admin_client, registered)
    assert secret_states.states(registered.row)[0].works is False


def test_who_may_not_see_the_activity_sees_no_cause(settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = False
    attempt = Attempt()
    attempt.browser.get(attempt.link(redirect_uri="https://mallory.example/"), **HTML)
    activity_counts.flush()
    mallory = PersonFactory(is_staff=True)
    mallory.user_permissions.add(Permission.objects.get(codename="view_application"))
    said = page(with_session(mallory), attempt.application)
    assert attempt.application.row.name in said
    assert "callback address isn’t registered" not in said


def test_a_name_in_a_finding_is_shown_as_text(admin_client: Client, registered: Registered) -> None:
    update(registered, redirect_uris="http://a.example/<script>alert(1)</script>")
    answer = admin_client.get(f"/admin/oauth_bridge/application/{registered.row.pk}/")
    assert "<script>alert" not in answer.content.decode()
