"""A person downloads what is stored about them, and deletes the account."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db.models import UUIDField
from django.test import Client
from django.utils import timezone

from accounts import profile
from accounts.models import Session, User
from oauth_bridge.activity import counts
from oauth_bridge.management import purging
from oauth_bridge.models import AccessToken, AuthorizationCode, Consent
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.factories import CodeFactory, ConsentFactory, PersonFactory, Registered, TokenFactory, picture, upload
from tests.grants import exchange
from tests.pages import browser_of, is_signed_in

pytestmark = pytest.mark.django_db

EXPORT = "/accounts/export"
DELETE = "/accounts/delete"


@pytest.fixture
def credentials(alice: User, application: Registered) -> list[Any]:
    """A code and a token of Alice, and a remembered consent."""
    ConsentFactory(user=alice, application=application.row, fingerprint="f" * 64)
    return [CodeFactory(user=alice, application=application), TokenFactory(user=alice, application=application)]


def test_the_file_holds_the_person_and_what_applications_got_and_no_credential(
    browser: Client, alice: User, application: Registered, credentials: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.post("/accounts/profile", {"nickname": "Ægir 李", "picture": upload(picture())})
    mallory = PersonFactory(nickname="Mallory")
    browser_of(mallory)
    TokenFactory(user=mallory, application=application)
    answer = browser.post(EXPORT)
    assert answer["Content-Disposition"] == 'attachment; filename="account.json"'
    assert "no-store" in answer["Cache-Control"]
    found = answer.json()
    assert (found["sub"], found["email"], found["nickname"]) == (str(alice.pk), alice.email, "Ægir 李")
    assert base64.b64decode(found["picture_png_base64"]).startswith(b"\x89PNG")
    assert [each["browser"] for each in found["browsers"]] == ["Firefox/Linux"]
    for name in ("consents", "authorization_codes", "access_tokens"):
        (entry,) = found[name]
        assert (entry["application"], entry["client_id"]) == (application.row.name, application.client_id)
    session = Session.objects.get(user=alice)
    alice.refresh_from_db()
    secrets = [alice.password, session.session_key, session.session_data, browser.session.session_key, str(mallory.pk)]
    for issued in credentials:
        secrets += [issued.raw, bytes(issued.row.digest).hex(), base64.b64encode(bytes(issued.row.digest)).decode()]
    assert all(secrets)
    assert not [secret for secret in secrets if secret in json.dumps(found)]
    monkeypatch.setattr(profile, "ENTRIES", 1)
    TokenFactory(user=alice, application=application, issued_at=timezone.now() - timedelta(minutes=5))
    newest = browser.post(EXPORT).json()
    assert (newest["access_tokens"], newest["entries_of_each_list_at_most"]) == (found["access_tokens"], 1)


def test_the_account_of_the_person_who_types_its_address_and_all_that_belongs_to_it_is_gone(
    browser: Client, alice: User, application: Registered, credentials: list[Any]
) -> None:
    elsewhere, code, token = browser_of(alice), *credentials
    for typed in ("", "delete", "mallory@example.com", "\x00"):
        assert browser.post(DELETE, {"email": typed}).context["form"].errors["email"]
    mallory = browser_of(PersonFactory(nickname="Mallory"))
    assert mallory.post(DELETE, {"email": alice.email, "user": str(alice.pk)}).status_code == 200
    assert browser.post(DELETE, {"email": f" {alice.email.upper()} "})["Location"] == "/accounts/sign-in"
    page = browser.get("/accounts/sign-in")
    assert b"Your account is deleted" in page.content
    assert "offered" not in page.context
    assert not User.objects.filter(pk=alice.pk).exists()
    for model in (Session, AuthorizationCode, AccessToken, Consent):
        assert not model._default_manager.filter(user_id=alice.pk).exists()
    assert not any(is_signed_in(old) for old in (browser, elsewhere))
    assert exchange(application, code=code.raw).json()["error"] == "invalid_grant"
    assert Client().get("/oauth/userinfo", headers={"authorization": f"Bearer {token.raw}"}).status_code == 401


def test_no_row_stays_about_a_person_whose_account_is_gone(alice: User) -> None:
    """Not by the thread that writes a moment later, nor by a request that began before the deletion."""
    bob, sub = PersonFactory(), alice.pk
    for person in (alice, bob):
        browser_of(person)
    counts.note_profile_read(uuid4(), sub, "x", timezone.now())
    alice.delete()
    counts.flush()
    fields = {"at": timezone.now(), "step": Step.SIGN_IN, "outcome": Outcome.REFUSED, "cause": "password_wrong"}
    for person_id in (sub, bob.pk, None):
        ActivityRecord.objects.create(person_id=person_id, **fields)
    list(purging.batches(timezone.now()))
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if field.related_model is User or isinstance(field, UUIDField):
                assert not model._default_manager.filter(**{field.attname: sub}).exists(), (model, field)
    rows = list(ActivityRecord.objects.order_by("id").values_list("person_id", "cause"))
    assert rows == [(bob.pk, ""), (bob.pk, "password_wrong"), (None, "password_wrong")]
