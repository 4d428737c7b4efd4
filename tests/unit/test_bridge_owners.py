"""Owners of an application; acts on the application as a whole; the proof before dangerous acts; changed addresses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEntry, User
from config.infrastructure.errors import RequestError
from oauth_bridge.activity import counts
from oauth_bridge.applications import mails, registry
from oauth_bridge.credentials import tokens
from oauth_bridge.models import Application, Consent
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, TokenFactory
from tests.grants import HTML, Attempt
from tests.pages import html_of, text_of, with_session

pytestmark = pytest.mark.django_db


@pytest.fixture
def application() -> Application:
    addresses = "https://a.example/cb\nhttps://b.example/cb"
    return ApplicationFactory(name="Reading List", redirect_uris=addresses).row  # type: ignore[no-any-return]


def act(application: Application, name: str) -> str:
    return reverse("admin:application_act", args=[application.pk, name])


def page(application: Application, name: str = "application") -> str:
    return reverse(f"admin:{name}", args=[application.pk])


def test_owners_are_named_on_a_page_and_shown_and_in_the_trail(admin_client: Client, application: Application) -> None:
    ada, nobody = PersonFactory(nickname="Ada", is_staff=True), PersonFactory(nickname="Nobody")
    asked = text_of(admin_client.get(act(application, "owners")))
    assert f"Ada ({ada.email})" in asked
    assert "Nobody (" not in asked
    done = text_of(admin_client.post(act(application, "owners"), {"owners": [str(ada.pk)]}, follow=True))
    assert "The owners of Reading List are saved." in done
    assert "Owners Ada" in done
    assert AuditEntry.objects.get().changes == {"owners": [[], [str(ada.pk)]]}
    assert "Owners Ada" in text_of(admin_client.get(page(application, "oauth_bridge_application_history"), follow=True))
    assert "checked" in html_of(admin_client.get(act(application, "owners")))
    for person in (nobody, PersonFactory(is_staff=True, is_active=False)):
        with pytest.raises(ValidationError, match="may open the administration"):
            registry.set_owners(application, [person])


def test_mails_go_to_the_owners_who_can_be_told_and_else_to_superusers(application: Application) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    ada = PersonFactory(is_staff=True)
    PersonFactory(is_superuser=True, is_active=False)
    PersonFactory(is_superuser=True, email_verified_at=None)
    assert mails.owners_of(application) == [root]
    registry.set_owners(application, [ada])
    assert mails.owners_of(application) == [ada]
    for change in ({"is_active": False}, {"is_staff": False}, {"email_verified_at": None}):
        before = User.objects.filter(pk=ada.pk).values(*change).get()
        User.objects.filter(pk=ada.pk).update(**change)
        assert mails.owners_of(application) == [root]
        User.objects.filter(pk=ada.pk).update(**before)
    ada.delete()
    assert not Application.owners.through.objects.exists()
    for _ in range(mails.MOST_OWNERS):
        PersonFactory(is_superuser=True)
    assert len(mails.owners_of(application)) == mails.MOST_OWNERS


def test_a_reason_for_switching_off_is_shown_to_administrators(admin_client: Client) -> None:
    attempt = Attempt()
    application = attempt.application.row
    token = TokenFactory(application=application)
    done = text_of(admin_client.post(act(application, "switch-off"), {"reason": "Sold to <Mallory>"}, follow=True))
    name = User.objects.get(is_superuser=True).display_name
    assert "is switched off. All its access has ended." in done
    assert re.search(rf"{name} switched it off on .* UTC \. Reason: Sold to <Mallory>", done)
    with pytest.raises(RequestError):
        tokens.read(token.raw)
    assert AuditEntry.objects.get().changes == {"disabled_reason": [None, "Sold to <Mallory>"]}
    refused = attempt.browser.get(attempt.link(), **HTML)
    assert "Sold" not in html_of(refused)
    counts.flush()
    found = admin_client.get("/admin/find/", {"q": refused["X-Reference"]}, follow=True)
    assert "Reason: Sold to <Mallory>" in text_of(found)
    assert "<Mallory>" not in html_of(found)
    assert "Reason: Sold to <Mallory>" in text_of(admin_client.get("/admin/activity/"))
    said = text_of(admin_client.post(act(application, "switch-on"), follow=True))
    assert "is switched on." in said
    assert "Sold" not in said
    application.refresh_from_db()
    assert (application.disabled_reason, application.disabled_at, application.disabled_by) == ("", None, "")


def test_an_act_that_cannot_be_done_changes_nothing(admin_client: Client, application: Application) -> None:
    for reason in ("x" * 201, "a\u202eb"):
        assert 'aria-invalid="true"' in html_of(admin_client.post(act(application, "switch-off"), {"reason": reason}))
    assert admin_client.get(act(application, "switch-on"))["Location"] == page(application), "it is switched on already"
    assert admin_client.get(act(application, "explode")).status_code == 404
    application.refresh_from_db()
    assert application.is_enabled


def test_the_access_of_everybody_is_ended_and_counted_before_and_after(
    admin_client: Client, application: Application
) -> None:
    for _ in range(2):
        ConsentFactory(application=application, user=PersonFactory(), fingerprint="x")
    kept = ConsentFactory(application=ApplicationFactory().row, user=PersonFactory(), fingerprint="x")
    token, others = TokenFactory(application=application), TokenFactory()
    asked = text_of(admin_client.get(act(application, "end-access")))
    assert "2 people have allowed it. It had 0 sign-ins in 30 days." in asked
    assert Consent.objects.count() == 3
    done = text_of(admin_client.post(act(application, "end-access"), follow=True))
    assert "with the consents of 2 people. 0 people have allowed it now." in done
    assert Consent.objects.get() == kept
    with pytest.raises(RequestError):
        tokens.read(token.raw)
    assert tokens.read(others.raw)
    application.refresh_from_db()
    assert application.is_enabled


def test_each_dangerous_act_asks_for_a_proof_before_its_page_and_leads_back(application: Application) -> None:
    person, group = PersonFactory(), Group.objects.create(name="Readers")
    stale = with_session(PersonFactory(is_staff=True, is_superuser=True))
    secrets = page(application, "oauth_bridge_application_secret")
    dangerous: list[tuple[str, dict[str, Any]]] = [
        (secrets, {"overlap": "24"}),
        (reverse("admin:application_secret_act", args=[application.pk, 1, "end"]), {}),
        (act(application, "trust"), {}),
        (act(application, "owners"), {"owners": []}),
        (page(application, "oauth_bridge_application_delete"), {"post": "yes", "typed": application.name}),
        (f"/admin/accounts/user/{person.pk}/change/", {"nickname": "A", "is_active": "on", "is_staff": "on"}),
        (f"/admin/accounts/user/{person.pk}/delete/", {"post": "yes", "typed": person.email}),
        (reverse("admin:auth_group_change", args=[group.pk]), {"name": "Readers", "permissions": ["1"]}),
        (reverse("admin:auth_group_add"), {"name": "Writers"}),
        (f"{reverse('admin:person', args=[person.pk])}?act=remove-factors", {}),
    ]
    for address, form in dangerous:
        entries = AuditEntry.objects.count()
        asked = stale.get(address)["Location"]
        assert asked.startswith("/accounts/confirm?next="), address
        assert stale.post(address, form)["Location"] == asked
        assert AuditEntry.objects.count() == entries
    away = {"action": "delete_selected", "_selected_action": str(person.pk), "post": "yes", "typed": "1"}
    assert stale.post("/admin/accounts/user/", away)["Location"].startswith("/accounts/confirm?next=")
    assert User.objects.filter(pk=person.pk).exists()
    assert address.endswith("?act=remove-factors")
    assert stale.post(asked, {"password": PASSWORD})["Location"] == address
    assert stale.get(address)["Location"] == reverse("admin:person", args=[person.pk]), "there is nothing to remove"


def test_an_account_that_was_used_is_deleted_once_its_address_is_typed(admin_client: Client) -> None:
    person, unused = PersonFactory(last_login=timezone.now()), PersonFactory()
    delete = reverse("admin:accounts_user_delete", args=[person.pk])
    assert f"To delete it, type {person.email}" in text_of(admin_client.get(delete))
    for typed in ("", "someone@else.example"):
        said = text_of(admin_client.post(delete, {"post": "yes", "typed": typed}, follow=True))
        assert "What you typed is something else. Nothing is deleted." in said
        assert User.objects.filter(pk=person.pk).exists()
    admin_client.post(delete, {"post": "yes", "typed": person.email})
    admin_client.post(reverse("admin:accounts_user_delete", args=[unused.pk]), {"post": "yes"})
    assert not User.objects.filter(pk__in=[person.pk, unused.pk]).exists()


def test_an_address_that_was_used_is_removed_only_when_that_is_confirmed(
    admin_client: Client, application: Application
) -> None:
    for address, redeemed_at in (("https://a.example/cb", timezone.now()), ("https://b.example/cb", None)):
        CodeFactory(application=application, redirect_uri=address, redeemed_at=redeemed_at)
    CodeFactory(redirect_uri="https://b.example/cb", redeemed_at=timezone.now())
    change = page(application, "oauth_bridge_application_change")
    form = {"name": "Reading List", "redirect_uris": "https://c.example/cb\nhttps://b.example/cb"}
    assert 'name="remove_used"' not in html_of(admin_client.get(change))
    asked = admin_client.post(change, form)
    assert "1 sign-in in the last 30 days used https://a.example/cb, which is to be removed." in text_of(asked)
    assert 'name="remove_used"' in html_of(asked)
    application.refresh_from_db()
    assert application.callback_addresses == ["https://a.example/cb", "https://b.example/cb"]
    assert admin_client.post(change, {**form, "remove_used": "on"}).status_code == 302
    application.refresh_from_db()
    assert application.callback_addresses == ["https://c.example/cb", "https://b.example/cb"]
    assert admin_client.post(change, {**form, "redirect_uris": "https://c.example/cb"}).status_code == 302
    application.refresh_from_db()
    assert application.callback_addresses == ["https://c.example/cb"], "nobody used the other lately"
