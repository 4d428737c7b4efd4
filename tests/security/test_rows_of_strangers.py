"""What a stranger's requests store: on every path nothing, or rows that end soon and are bounded for each address."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import Session, User
from oauth_bridge.activity_models import ActivityBudget, ActivityCount, ActivityRecord
from tests.factories import PASSWORD
from tests.pages import browser_of
from tests.paths import example_paths
from tests.sending import try_password

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]

_ACCOUNT = {"accounts.User", "account.EmailAddress", "accounts.Session"}
# The only paths on which a stranger's request leaves rows. docs/operations.md gives the bounds: "What one sender can
# use up".
STORED = {
    ("GET", "/accounts/sign-in/passkey"): {"accounts.Session"},  # the challenge
    ("POST", "/accounts/sign-in/passkey"): {"accounts.Session"},  # an outdated form gets the options too
    ("GET", "/oauth/jwks"): {"oauth_bridge.SigningKey"},  # the first keys, one of each algorithm
    ("POST", "/accounts/password/reset"): {"accounts.Session"},  # the return path; limit `reset`
    ("POST", "/accounts/sign-up"): _ACCOUNT,  # limit `sign_up`
    ("POST", "/accounts/sign-up/passkey"): _ACCOUNT,
}
FIELDS = {
    "login": "nobody@example.net",
    "password": PASSWORD,
    "password1": "a long new phrase of hers",
    "code": "123456",
    "next": "/accounts/profile",
    "nickname": "Mallory",
    "language": "de",
    "credential": "{}",
    "others": "1",
}
NUMBERS = itertools.count()


def requests(method: str, path: str) -> Iterator[Any]:
    """With and without fields, with and without a CSRF token (Django's client checks none unless asked to)."""
    for strict, fields in itertools.product((True, False), ({}, FIELDS)):
        browser = Client(enforce_csrf_checks=strict)
        data = {**fields, "email": f"nobody-{next(NUMBERS)}@example.net"}
        yield browser.get(path, data) if method == "GET" else browser.post(path, data)


def rows() -> dict[str, int]:
    """But for the activity log, which has a budget: tests/unit/test_activity.py."""
    models = set(apps.get_models(include_auto_created=True)) - {ActivityBudget, ActivityCount, ActivityRecord}
    return {model._meta.label: model._base_manager.count() for model in models}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_a_few_paths_store_something_for_a_stranger(sign_up_is_open: None, method: str) -> None:
    stored = {}
    for path in example_paths():
        before = rows()
        assert {answer.status_code for answer in requests(method, path)} & {500} == set(), path
        if added := {label for label, number in rows().items() if number != before[label]}:
            stored[method, path] = added
    assert stored == {key: labels for key, labels in STORED.items() if key[0] == method}


def test_whatever_a_stranger_sends_no_session_of_theirs_outlives_an_hour(sign_up_is_open: None) -> None:
    for method, path in STORED:
        list(requests(method, path))
    ends = Session.objects.values_list("expire_date", flat=True)
    assert len(ends) > 5
    assert max(ends) <= timezone.now() + timedelta(seconds=settings.ANONYMOUS_SESSION_AGE)


def test_the_session_of_a_person_lasts_for_two_weeks(alice: User) -> None:
    browser = browser_of(alice)
    lasts = Session.objects.get(user=alice).expire_date - timezone.now()
    assert lasts == timedelta(seconds=settings.SESSION_COOKIE_AGE) == timedelta(days=14)
    assert browser.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == settings.SESSION_COOKIE_AGE


def test_a_sign_in_that_waits_for_its_code_ends_within_an_hour(alice: User) -> None:
    """allauth asks for two weeks as soon as the password is right."""
    User.objects.filter(pk=alice.pk).update(email_verified_at=None)
    browser = Client()
    assert try_password(alice.email, PASSWORD, browser=browser)["Location"] == reverse(
        "account_email_verification_sent"
    )
    lasts = Session.objects.get().expire_date - timezone.now()
    assert lasts == timedelta(hours=1)
    assert browser.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == settings.ANONYMOUS_SESSION_AGE


def test_an_outdated_form_still_says_so_to_a_stranger() -> None:
    answer = Client(enforce_csrf_checks=True).post("/accounts/sign-in", {"login": "x", "password": "y"})
    assert answer.status_code == 403
    assert "open for too long" in answer.content.decode()
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/accounts/sign-in", ("&".join("a" * 1001), "application/x-www-form-urlencoded")),  # too many fields
        ("/accounts/sign-in", ("a" * 3_000_000, "application/x-www-form-urlencoded")),
        ("/accounts/profile", ("no part", "multipart/form-data")),
    ],
    ids=["fields", "bytes", "parts"],
)
def test_a_form_that_can_not_be_read_stores_nothing(path: str, form: tuple[str, str]) -> None:
    answer = Client(enforce_csrf_checks=True).generic("POST", path, *form)
    assert answer.status_code in (400, 413)
    assert not Session.objects.exists()
