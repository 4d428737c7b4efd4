"""The folder of temporary files can't be written, or a stored picture is gone: a sentence, never a 500."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.http import HttpResponse
from django.test import Client
from PIL import Image

from accounts.models import StoredPicture, User
from accounts.pictures import current_picture, reencoder_runner, stored_pictures
from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.factories import encoded

pytestmark = [pytest.mark.django_db(transaction=True)]
DISK = "64k"

FORM = {"name": "Reading List", "redirect_uris": "https://reading.example/callback", "is_enabled": "on"}


def large_picture(colour: str = "red") -> io.BytesIO:
    """A file of more than 64 kB, which is received in several parts."""
    file = io.BytesIO(encoded(Image.new("RGB", (300, 300), colour), compress_level=0))
    file.name = "me.png"
    return file


def set_picture(person: User) -> None:
    current_picture.set_picture(person, reencoder_runner.reencode(ContentFile(large_picture().getvalue())))


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[Any]:
    return [record for record in caplog.records if record.message == message]


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(512)):
            pass


# Storing --------------------------------------------------------------------------------------------------------------


def test_a_logo_of_a_form_with_another_error_is_not_stored(admin_client: Client) -> None:
    page = admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "redirect_uris": "x", "new_logo": large_picture()}
    )
    assert page.status_code == 200
    assert not StoredPicture.objects.exists()


# Receiving ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["full", "no folder"])
def temporary(request: pytest.FixtureRequest, settings: Any, disk: Path, alice: User) -> None:
    """The folder of temporary files can't be written; the store can."""
    settings.FILE_UPLOAD_TEMP_DIR = str(disk if request.param == "full" else disk / "missing")
    fill(disk)


@pytest.mark.parametrize("size", [100, 5000, 200_000])
def test_a_picture_that_cannot_be_received_is_a_sentence_and_what_was_typed_is_kept(
    browser: Client, alice: User, temporary: None, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    upload = io.BytesIO(large_picture().getvalue()[:size])
    upload.name = "me.png"
    page: HttpResponse = browser.post("/accounts/profile", {"nickname": "Typed", "picture": upload})
    assert page.status_code == 200
    form = page.context["form"]
    assert "could not be received because of a fault on our side. Nothing is saved." in str(form.errors["picture"])
    assert form["nickname"].value() == "Typed"
    assert User.objects.get(pk=alice.pk).nickname == alice.nickname
    assert len(logged(caplog, "an upload could not be received")) == 1


def test_a_logo_that_cannot_be_received_is_a_sentence(admin_client: Client, temporary: None) -> None:
    page = admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "client_type": "public", "new_logo": large_picture()}
    )
    assert page.status_code == 200
    assert "could not be received because of a fault on our side." in page.content.decode()
    assert not Application.objects.exists()


def test_files_that_no_form_asks_for_disturb_nothing(browser: Client, temporary: None) -> None:
    form = {"nickname": "Ali", "a": large_picture(), "b": large_picture()}
    assert browser.post("/accounts/profile", form).status_code == 302


# Reading --------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_warned_of() -> None:
    stored_pictures.warn_missing.cache_clear()


@contract("D16.lost")
def test_a_picture_that_cannot_be_read_is_drawn_kept_by_no_cache_and_seen_once_it_is_back(
    client: Client, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    set_picture(alice)
    address = current_picture.avatar_url(alice).removeprefix("http://testserver")
    true = client.get(address)
    StoredPicture.objects.all().delete()
    for asked in ({}, {"if-none-match": '"000000000000"'}):
        drawn = client.get(address, headers=asked)
        assert (drawn.status_code, drawn.content) == (200, current_picture.drawn(alice))
        assert drawn["Cache-Control"] == "no-store"
        assert "ETag" not in drawn
    # A browser that shows the right picture keeps showing it.
    assert client.get(address, headers={"if-none-match": true["ETag"]}).status_code == 304
    assert [record.levelname for record in logged(caplog, "a picture can't be read")] == ["WARNING"]
    stored_pictures.store(alice.avatar, true.content)
    assert client.get(address).content == true.content


def test_a_logo_that_cannot_be_read_is_not_found_and_kept_by_no_cache(
    admin_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "client_type": "public", "new_logo": large_picture()}
    )
    name = Application.objects.get().logo
    assert admin_client.get(f"/logos/{name}").status_code == 200
    StoredPicture.objects.all().delete()
    for _ in range(2):
        answer = admin_client.get(f"/logos/{name}")
        assert (answer.status_code, answer["Cache-Control"]) == (404, "no-store")
    assert len(logged(caplog, "a picture can't be read")) == 1


def test_a_logo_that_nobody_has_is_no_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get(f"/logos/{'0' * 32}.png").status_code == 404
    assert not logged(caplog, "a picture can't be read")
