"""When the profile last changed: the claim `updated_at`. OpenID Connect Core 1.0 §5.1."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from accounts.pictures import current_picture
from accounts.sign_in import verification
from oauth_bridge.protocol import claims
from tests.factories import PersonFactory
from tests.pages import admin_browser, browser_of, mailed_code, type_code
from tests.pictures import picture, upload

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def alice() -> User:
    person: User = PersonFactory(profile_changed_at=LONG_AGO)
    return person


@pytest.fixture
def browser(alice: User) -> Client:
    return browser_of(alice)


def has_changed(person: User) -> bool:
    person.refresh_from_db()
    assert person.profile_changed_at
    return person.profile_changed_at > LONG_AGO


def test_the_claim_is_a_number_of_seconds(alice: User) -> None:
    assert claims.values(alice, ["updated_at"]) == {"updated_at": 1577836800}


def test_a_new_account_has_the_claim() -> None:
    assert isinstance(claims.values(PersonFactory(), ["updated_at"])["updated_at"], int)


def test_an_account_of_an_earlier_release_has_no_such_claim() -> None:
    assert claims.values(PersonFactory(profile_changed_at=None), ["sub", "updated_at"]).keys() == {"sub"}


def test_another_nickname_is_a_change_and_the_same_is_none(browser: Client, alice: User) -> None:
    browser.post("/accounts/profile", {"nickname": alice.nickname})
    assert not has_changed(alice)
    browser.post("/accounts/profile", {"nickname": "Ada"})
    assert has_changed(alice)


def test_a_picture_is_a_change(browser: Client, alice: User) -> None:
    browser.post("/accounts/profile", {"picture": upload(picture())})
    assert has_changed(alice)


def test_no_picture_is_a_change(alice: User) -> None:
    current_picture.remove_picture(alice)
    assert has_changed(alice)


@pytest.mark.parametrize(("changed", "is_change"), [({"nickname": "Ada"}, True), ({"groups": []}, False)])
def test_an_administrator_changes_the_nickname(alice: User, changed: dict[str, Any], is_change: bool) -> None:
    fields = {"nickname": alice.nickname, "is_active": "on", **changed}
    admin_browser().post(reverse("admin:accounts_user_change", args=[alice.pk]), fields)
    assert has_changed(alice) is is_change


def test_the_nickname_of_a_sign_up_that_nobody_confirmed_is_cleared() -> None:
    person = PersonFactory(profile_changed_at=LONG_AGO, email_verified_at=None, language="en")
    verification.clear_nickname_of_sign_up(person)
    assert has_changed(person)


def test_another_address_is_a_change(browser: Client, alice: User) -> None:
    browser.post("/accounts/email", {"email": f"new-{uuid.uuid4().hex[:12]}@example.com"})
    assert not has_changed(alice)
    type_code(browser, mailed_code())
    assert has_changed(alice)


def test_another_proof_of_the_address_is_none(alice: User) -> None:
    verification.mark_verified(alice)
    assert not has_changed(alice)
