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
from django.utils import timezone

from accounts.models import Session, User
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.factories import PASSWORD
from tests.grants import example_paths, try_password

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]

_ACCOUNT = {"accounts.User", "account.EmailAddress", "accounts.Session"}
# The only paths on which a stranger's request leaves rows. docs/operations.md gives the bounds: "What one sender can
# use up".
STORED = {
    ("GET", "/accounts/sign-in/passkey"): {"accounts.Session"},  # the challenge
    ("GET", "/health/ready"): {"oauth_bridge.WriteProof"},  # one row
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
    models = set(apps.get_models(include_auto_created=True)) - {ActivityCount, ActivityRecord}
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


def test_a_session_of_a_person_lasts_two_weeks_and_one_that_waits_for_its_code_an_hour(alice: User) -> None:
    """allauth asks for two weeks as soon as the password is right."""
    for verified_at, age in ((timezone.now(), settings.SESSION_COOKIE_AGE), (None, settings.ANONYMOUS_SESSION_AGE)):
        Session.objects.all().delete()
        User.objects.filter(pk=alice.pk).update(email_verified_at=verified_at)
        browser = Client()
        assert try_password(alice.email, PASSWORD, browser=browser).status_code == 302
        assert Session.objects.get().expire_date - timezone.now() == timedelta(seconds=age)
        assert browser.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == age
    assert (settings.SESSION_COOKIE_AGE, settings.ANONYMOUS_SESSION_AGE) == (14 * 86_400, 3600)


def test_a_form_that_can_not_be_read_or_is_outdated_stores_nothing() -> None:
    form = "application/x-www-form-urlencoded"
    for path, body, content_type, status in (
        ("/accounts/sign-in", "&".join("a" * 1001), form, 400),  # too many fields
        ("/accounts/sign-in", "a" * 3_000_000, form, 413),
        ("/accounts/profile", "no part", "multipart/form-data", 400),
        ("/accounts/sign-in", "login=x&password=y", form, 403),
    ):
        answer = Client(enforce_csrf_checks=True).generic("POST", path, body, content_type)
        assert answer.status_code == status, body[:20]
    assert "sent no cookie of this site" in answer.content.decode()
    assert not Session.objects.exists()
