"""No application can be taken for one that signs people in without asking them. D7."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from oauth_bridge.models import Application
from oauth_bridge.storage import applications
from oauth_bridge.storage.look_alikes import skeleton
from tests.factories import ApplicationFactory

ALIKE = [
    "Photo Printer",
    "photo printer",
    "PhotoPrinter",
    " Photo-Printer! ",
    "PHOTO PRlNTER",
    "Ph0to Pr1nter",
    "Phóto Printer™",
    "Photo\u200bPrinter",
    "Ｐｈｏｔｏ Ｐｒｉｎｔｅｒ",
    "Рhоtо Рrіntеr",  # Cyrillic
    "РНОТО РRІNТЕR",
    "ΡΗΟΤΟ ΡRΙΝΤΕR",  # Greek
    "Phоtο Prınter",
    "❤ Photo Printer",
]
OTHER = ["Photo Painter", "Photo", "Printer Photo", "Photo Printer 2", "Фото", "❤"]
ADD = "/admin/oauth_bridge/application/add/"
FORM = {
    "redirect_uris": "https://mallory.example/callback",
    "client_type": "confidential",
    "is_enabled": "on",
}


@pytest.mark.parametrize("name", ALIKE)
def test_names_that_look_alike_have_one_skeleton(name: str) -> None:
    assert skeleton(name) == skeleton("Photo Printer")


@pytest.mark.parametrize("name", OTHER)
def test_other_names_have_another_skeleton(name: str) -> None:
    assert skeleton(name) != skeleton("Photo Printer")


def test_names_without_a_letter_and_names_that_differ_by_a_vowel_sign_are_told_apart() -> None:
    assert len({skeleton(name) for name in ("❤", "★", "हिन्दी", "हिन्द", "...", "写真", "写直")}) == 7


def create(*arguments: str) -> str:
    """What the command says beside its answer."""
    err = io.StringIO()
    command = ("application", "create", *arguments, "--redirect-uri", "https://mallory.example/callback")
    call_command(*command, stdout=io.StringIO(), stderr=err)
    return err.getvalue()


def posted(browser: Client, application: Application | None = None, **fields: str) -> str:
    """The text of the page that answers the form, after its redirects."""
    path = reverse("admin:oauth_bridge_application_change", args=[application.pk]) if application else ADD
    return browser.post(path, {**FORM, **fields}, follow=True).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ALIKE)
def test_the_name_of_a_trusted_application_is_refused(admin_client: Client, name: str) -> None:
    ApplicationFactory(name="Photo Printer", is_trusted=True)
    with pytest.raises(CommandError, match="People could take “Photo Printer” for this one"):
        create(name)
    assert "People could take “Photo Printer” for this one, and one of the two" in posted(admin_client, name=name)
    assert Application.objects.count() == 1


@pytest.mark.django_db
def test_an_application_does_not_become_trusted_while_another_looks_like_it(admin_client: Client) -> None:
    ours = ApplicationFactory(name="Photo Printer").row
    mallorys = ApplicationFactory(name="Photo PrInter", is_enabled=False).row
    with pytest.raises(CommandError, match="one of the two is trusted"):
        create("photo printer", "--trusted")
    trust = reverse("admin:application_act", args=[ours.pk, "trust"])
    assert "one of the two is trusted" in admin_client.post(trust, follow=True).content.decode()
    ours.refresh_from_db()
    assert not ours.is_trusted
    mallorys.delete()
    assert "one of the two is trusted" not in admin_client.post(trust, follow=True).content.decode()
    ours.refresh_from_db()
    assert ours.is_trusted


@pytest.mark.django_db
def test_no_application_is_renamed_to_look_like_a_trusted_one(admin_client: Client) -> None:
    ApplicationFactory(name="Photo Printer", is_trusted=True)
    mallorys = ApplicationFactory(name="Holiday").row
    assert "one of the two is trusted" in posted(admin_client, mallorys, name="Photo Printer")
    mallorys.refresh_from_db()
    assert mallorys.name == "Holiday"


@pytest.mark.django_db
def test_a_trusted_application_keeps_its_own_name_and_an_older_look_alike_can_be_changed(
    admin_client: Client,
) -> None:
    trusted = ApplicationFactory(name="Photo Printer", is_trusted=True).row
    older = ApplicationFactory(name="Photo PrInter").row
    assert "one of the two" not in posted(admin_client, older, name=older.name, operator="Mallory Ltd")
    older.refresh_from_db()
    assert older.operator == "Mallory Ltd"
    older.delete()
    assert "one of the two" not in posted(admin_client, trusted, name="Photo printer", is_trusted="on")


@pytest.mark.django_db
def test_another_duplicate_is_registered_and_warned_of(admin_client: Client) -> None:
    first = ApplicationFactory(name="Photo Printer").row
    assert create("Photo Printer") == f"People could take “Photo Printer” ({first.client_id}) for this application.\n"
    assert create("Holiday") == ""
    page = posted(admin_client, name="photo-printer", client_type="public")
    assert page.count("People could take “Photo Printer” for this one.") == 2
    assert "People could take" not in posted(admin_client, first, name=first.name, operator="Ltd")
    assert Application.objects.count() == 4


@pytest.mark.django_db
@pytest.mark.parametrize("fields", [{}, {"is_trusted": True}])
def test_the_rule_holds_for_both_of_a_pair(fields: dict[str, Any]) -> None:
    ApplicationFactory(name="Photo Printer", is_trusted=not fields)
    with pytest.raises(ValidationError):
        applications.register(name="Ph0to Printer", redirect_uris=["https://mallory.example/"], **fields)
