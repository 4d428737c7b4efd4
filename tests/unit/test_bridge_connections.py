"""The page of a person's applications: what it lists, what it says, and how little it believes."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.models import Application, Consent
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, TokenFactory

pytestmark = pytest.mark.django_db
PAGE = "/accounts/applications"


def application(**fields: Any) -> Application:
    row: Application = ApplicationFactory(**fields).row
    return row


def listed(browser: Client) -> tuple[list[str], ...]:
    context = browser.get(PAGE).context
    return tuple([each.application.name for each in context[part]] for part in ("unasked", "asked"))


def text(browser: Client) -> str:
    return html.unescape(" ".join(browser.get(PAGE).content.decode().split()))


def sign_in_to(row: Application, person: User, days_ago: float = 0) -> None:
    at = timezone.now() - timedelta(days=days_ago)
    CodeFactory(application=row, user=person, issued_at=at, redeemed_at=at)


def test_an_application_is_listed_once_it_was_allowed_until_it_is_disconnected(browser: Client, alice: User) -> None:
    row = application()
    assert listed(browser) == ([], [])
    consents.record(alice, row)
    assert listed(browser) == ([], [row.name])
    for end in (
        lambda: Consent.objects.update(expires_at=timezone.now()),
        lambda: end_credentials(alice),
        lambda: Application.objects.update(name="Photo Printer Pro"),
        lambda: browser.post(PAGE, {"ask_again": row.client_id}),
    ):
        consents.remember(alice, row)
        before = Consent.objects.values().get()
        consents.record(alice, row)
        assert Consent.objects.values().get() == before, "to allow again changes nothing"
        assert listed(browser) == ([row.name], [])
        end()
        row.refresh_from_db()
        browser.force_login(alice)
        for _ in range(2):
            assert listed(browser) == ([], [row.name])
            assert not consents.is_remembered(alice, row)
            consents.record(alice, row)
    assert Consent.objects.get().given_at == before["given_at"]
    browser.post(PAGE, {"disconnect": "\x00", "ask_again": "x" * 10_000})
    for answer in (Client().get(PAGE), Client().post(PAGE, {"disconnect": row.client_id})):
        assert answer["Location"].startswith("/accounts/sign-in?next=")
    assert listed(browser) == ([], [row.name])
    for button in ("disconnect", "disconnect", "ask_again"):
        assert browser.post(PAGE, {button: row.client_id}).status_code == 303
    assert listed(browser) == ([], [])


def test_a_sign_in_is_counted_for_30_days(browser: Client, alice: User) -> None:
    row = application()
    consents.record(alice, row)
    sign_in_to(row, alice, days_ago=31)
    assert "No sign-in in the last 30 days." in text(browser)
    sign_in_to(row, alice, days_ago=29)
    assert re.search(
        r"Last sign-in <time [^>]+>\d+ \w+ \d{4}, \d\d:\d\d UTC</time>, the only one in 30 days.", text(browser)
    )
    sign_in_to(row, alice)
    CodeFactory(application=row, user=alice)  # not redeemed
    sign_in_to(row, PersonFactory())
    assert re.search(r"Last sign-in <time [^>]+>just now</time>, 2 in 30 days.", text(browser))


def test_the_application_that_was_used_last_comes_first(browser: Client, alice: User) -> None:
    rows = [application() for _ in range(4)]
    for row, given, signed_in in zip(rows, (20, 2, 20, 20), (1, None, 3, None), strict=True):
        consents.record(alice, row)
        Consent.objects.filter(application=row).update(given_at=timezone.now() - timedelta(days=given))
        if signed_in:
            sign_in_to(row, alice, days_ago=signed_in)
    assert listed(browser)[1] == [row.name for row in rows]


def test_a_trusted_application_is_listed_while_a_sign_in_is_known(browser: Client, alice: User) -> None:
    row = application(is_trusted=True)
    sign_in_to(row, alice, days_ago=31)
    assert listed(browser) == ([], [])
    sign_in_to(row, alice)
    token = TokenFactory(application=row, user=alice).row
    assert listed(browser) == ([row.name], [])
    assert "An administrator allowed it for everybody" in text(browser)
    browser.post(PAGE, {"disconnect": row.client_id})
    assert listed(browser) == ([], [])
    token.refresh_from_db()
    assert token.revoked_at
    sign_in_to(row, alice)
    Application.objects.update(is_trusted=False)
    assert listed(browser) == ([], [row.name])


def test_what_is_switched_off_can_be_disconnected_and_what_is_deleted_is_gone(browser: Client, alice: User) -> None:
    row, kept = application(), application()
    for each in (row, kept):
        consents.remember(alice, each)
        sign_in_to(each, alice)
    registry.set_enabled(row, False)
    assert "Switched off" in text(browser)
    browser.post(PAGE, {"disconnect": row.client_id})
    registry.set_enabled(row, True)
    assert listed(browser) == ([kept.name], [])
    assert not consents.is_remembered(alice, row)
    consents.remember(alice, row)
    Application.objects.filter(pk=row.pk).delete()
    assert listed(browser) == ([kept.name], [])
