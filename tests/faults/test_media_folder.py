"""MEDIA_ROOT or the folder of temporary files can't be written or read: an error message, never a 500."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.http import HttpResponse
from django.test import Client
from PIL import Image

from accounts.models import User
from accounts.pictures import current_picture, reencoder_process, stored_files
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory
from tests.matrix import contract
from tests.pictures import encoded

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("media_on_disk")]
DISK = "64k"

FORM = {"name": "Reading List", "redirect_uris": "https://reading.example/callback", "is_enabled": "on"}
Break = Callable[[Path], None]


@pytest.fixture
def media_on_disk(settings: Any, disk: Path) -> None:
    settings.MEDIA_ROOT = disk


def large_picture(colour: str = "red") -> io.BytesIO:
    """A file of more than 64 kB, which is received in several parts."""
    file = io.BytesIO(encoded(Image.new("RGB", (300, 300), colour), compress_level=0))
    file.name = "me.png"
    return file


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[Any]:
    return [record for record in caplog.records if record.message == message]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != "filler")


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(512)):
            pass


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


def put_files_in_place(folder: Path) -> None:
    for place in (folder / "avatars", folder / "logos"):
        if place.exists():
            place.rename(place.with_suffix(".before"))
        place.touch()


FAULTS = {"full": fill, "read-only": make_read_only, "files in place of folders": put_files_in_place}


@pytest.fixture(params=FAULTS)
def broken(request: pytest.FixtureRequest) -> Break:
    return FAULTS[request.param]


# Storing --------------------------------------------------------------------------------------------------------------


def test_a_picture_that_cannot_be_stored_is_a_sentence_and_the_nickname_is_saved(
    browser: Client, alice: User, disk: Path, broken: Break, caplog: pytest.LogCaptureFixture
) -> None:
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    alice.refresh_from_db()
    before, kept = alice.avatar, files_in(disk)
    broken(disk)
    page = browser.post("/accounts/profile", {"nickname": "Typed", "picture": large_picture("blue")}, follow=True)
    assert page.status_code == 200
    assert "Your picture could not be saved because of a fault on our side." in page.content.decode()
    alice.refresh_from_db()
    assert (alice.nickname, alice.avatar) == ("Typed", before)
    assert [name for name in files_in(disk) if name not in ("avatars", "logos")] == kept
    assert len(logged(caplog, "a file could not be stored")) == 1


@pytest.mark.parametrize("is_new", [True, False], ids=["registered", "changed"])
def test_a_logo_that_cannot_be_stored_is_a_sentence_and_the_rest_is_saved(
    admin_client: Client, disk: Path, broken: Break, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    row = None if is_new else ApplicationFactory(logo="").row
    broken(disk)
    path = "/admin/oauth_bridge/application/" + ("add/" if row is None else f"{row.pk}/change/")
    page = admin_client.post(path, {**FORM, "client_type": "confidential", "new_logo": large_picture()}, follow=True)
    assert page.status_code == 200
    assert "The logo could not be saved because of a fault on our side." in page.content.decode()
    application = Application.objects.get(name="Reading List")
    assert application.logo == ""
    assert [name for name in files_in(disk) if name not in ("avatars", "logos")] == []
    assert len(logged(caplog, "a file could not be stored")) == 1


def test_once_there_is_room_the_picture_is_stored(browser: Client, alice: User, disk: Path) -> None:
    fill(disk)
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    (disk / "filler").unlink()
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    alice.refresh_from_db()
    assert [f"avatars/{name}" for name in files_in(disk)] == [alice.avatar]


def test_a_picture_that_cannot_be_deleted_is_removed_from_the_profile(
    browser: Client, alice: User, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    current_picture.set_picture(alice, reencoder_process.reencode(ContentFile(large_picture().getvalue())))
    make_read_only(disk)
    page = browser.post("/accounts/profile", {"remove_picture": "1"}, follow=True)
    assert "Your picture is removed." in page.content.decode()
    assert User.objects.get(pk=alice.pk).avatar == ""
    assert len(logged(caplog, "a file could not be deleted")) == 1


def test_a_logo_of_a_form_with_another_error_is_not_stored(admin_client: Client, disk: Path) -> None:
    page = admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "redirect_uris": "x", "new_logo": large_picture()}
    )
    assert page.status_code == 200
    assert files_in(disk) == []


# Receiving ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["full", "no folder"])
def temporary(request: pytest.FixtureRequest, settings: Any, disk: Path, alice: User, tmp_path: Path) -> None:
    """The folder of temporary files can't be written; MEDIA_ROOT can."""
    settings.MEDIA_ROOT = tmp_path / "media"
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
    stored_files.warn_unreadable.cache_clear()


def lose(path: Path) -> None:
    path.rename(path.with_suffix(".lost"))


def forbid(path: Path) -> None:
    """Replace the file by one that not even root can read."""
    lose(path)
    path.mkdir()


@contract("D16.lost")
@pytest.mark.parametrize("break_file", [lose, forbid])
def test_a_picture_that_cannot_be_read_is_drawn_kept_by_no_cache_and_seen_once_it_is_back(
    client: Client, alice: User, disk: Path, caplog: pytest.LogCaptureFixture, break_file: Break
) -> None:
    current_picture.set_picture(alice, reencoder_process.reencode(ContentFile(large_picture().getvalue())))
    address = current_picture.avatar_url(alice).removeprefix("http://testserver")
    true = client.get(address)
    path = disk / alice.avatar
    break_file(path)
    for asked in ({}, {"if-none-match": '"000000000000"'}):
        drawn = client.get(address, headers=asked)
        assert (drawn.status_code, drawn.content) == (200, current_picture.drawn(alice))
        assert drawn["Cache-Control"] == "no-store"
        assert "ETag" not in drawn
    # A browser that shows the right picture keeps showing it.
    assert client.get(address, headers={"if-none-match": true["ETag"]}).status_code == 304
    assert [record.levelname for record in logged(caplog, "a picture can't be read")] == ["WARNING"]
    if path.is_dir():
        path.rmdir()
    os.rename(path.with_suffix(".lost"), path)
    assert client.get(address).content == true.content


@pytest.mark.parametrize("break_file", [lose, forbid])
def test_a_logo_that_cannot_be_read_is_not_found_and_kept_by_no_cache(
    admin_client: Client, disk: Path, caplog: pytest.LogCaptureFixture, break_file: Break
) -> None:
    admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "client_type": "public", "new_logo": large_picture()}
    )
    name = Application.objects.get().logo
    assert admin_client.get(f"/logos/{name}").status_code == 200
    break_file(disk / "logos" / name)
    for _ in range(2):
        answer = admin_client.get(f"/logos/{name}")
        assert (answer.status_code, answer["Cache-Control"]) == (404, "no-store")
    assert len(logged(caplog, "a picture can't be read")) == 1


def test_a_logo_that_nobody_has_is_no_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get(f"/logos/{'0' * 32}.png").status_code == 404
    assert not logged(caplog, "a picture can't be read")
