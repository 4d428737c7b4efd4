"""No application can be taken for one that signs people in without asking them. D7."""

from __future__ import annotations

import io

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from oauth_bridge.models import Application
from oauth_bridge.storage import applications
from oauth_bridge.storage.look_alikes import skeleton
from tests.factories import ApplicationFactory
from tests.pages import html_of

ALIKE = [
    "PhotoPrinter",
    " Photo-Printer! ",
    "PHOTO PRlNTER",
    "Ph0to Pr1nter",
    "Phóto Printer™",
    "Photo\u200bPrinter",
    "Ｐｈｏｔｏ Ｐｒｉｎｔｅｒ",
    "Рhоtо Рrіntеr",  # Cyrillic
    "ΡΗΟΤΟ ΡRΙΝΤΕR",  # Greek
    "Phоtο Prınter",
    "❤ Photo Printer",
]
OTHER = ["Photo Painter", "Photo", "Printer Photo", "Photo Printer 2", "Фото", "❤"]
pytestmark = pytest.mark.django_db
ADD = "/admin/oauth_bridge/application/add/"
CALLBACK = "https://mallory.example/callback"


def test_only_names_that_look_alike_have_one_skeleton() -> None:
    assert [name for name in ALIKE if skeleton(name) != skeleton("Photo Printer")] == []
    assert [name for name in OTHER if skeleton(name) == skeleton("Photo Printer")] == []
    without_a_letter_or_with_a_vowel_sign = ("❤", "★", "हिन्दी", "हिन्द", "...", "写真", "写直")
    assert len({skeleton(name) for name in without_a_letter_or_with_a_vowel_sign}) == 7


def create(*arguments: str) -> str:
    """What the command says beside its answer."""
    err = io.StringIO()
    call_command("application", "create", *arguments, "--redirect-uri", CALLBACK, stdout=io.StringIO(), stderr=err)
    return err.getvalue()


def posted(browser: Client, application: Application | None = None, **fields: str) -> str:
    """The text of the page that answers the form, after its redirects."""
    path = reverse("admin:oauth_bridge_application_change", args=[application.pk]) if application else ADD
    form = {"redirect_uris": CALLBACK, "client_type": "confidential", "is_enabled": "on"}
    return html_of(browser.post(path, {**form, **fields}, follow=True))


def test_no_application_gets_the_name_of_a_trusted_one(admin_client: Client) -> None:
    ApplicationFactory(name="Photo Printer", is_trusted=True)
    mallorys = ApplicationFactory(name="Holiday").row
    for name in ("Photo Printer", "Рhоtо Рrіntеr"):
        with pytest.raises(CommandError, match="People could take “Photo Printer” for this one"):
            create(name)
        with pytest.raises(ValidationError):
            applications.register(name=name, redirect_uris=[CALLBACK])
        for application in (None, mallorys):
            page = posted(admin_client, application, name=name)
            assert "People could take “Photo Printer” for this one, and one of the two is trusted" in page
    assert sorted(Application.objects.values_list("name", flat=True)) == ["Holiday", "Photo Printer"]


def test_an_application_does_not_become_trusted_while_another_looks_like_it(admin_client: Client) -> None:
    ours = ApplicationFactory(name="Photo Printer").row
    mallorys = ApplicationFactory(name="Photo PrInter", is_enabled=False).row
    with pytest.raises(CommandError, match="one of the two is trusted"):
        create("photo printer", "--trusted")
    trust = reverse("admin:application_act", args=[ours.pk, "trust"])
    assert "one of the two is trusted" in html_of(admin_client.post(trust, follow=True))
    assert not Application.objects.filter(is_trusted=True).exists()
    mallorys.delete()
    assert "one of the two is trusted" not in html_of(admin_client.post(trust, follow=True))
    assert Application.objects.get().is_trusted


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


def test_another_duplicate_is_registered_and_warned_of(admin_client: Client) -> None:
    first = ApplicationFactory(name="Photo Printer").row
    assert create("Photo Printer") == f"People could take “Photo Printer” ({first.client_id}) for this application.\n"
    assert create("Holiday") == ""
    page = posted(admin_client, name="photo-printer", client_type="public")
    assert page.count("People could take “Photo Printer” for this one.") == 2
    assert "People could take" not in posted(admin_client, first, name=first.name, operator="Ltd")
    assert Application.objects.count() == 4
