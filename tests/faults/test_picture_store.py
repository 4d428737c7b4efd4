"""The store of pictures, or the folder of temporary files, can't be written or read: a sentence, never a 500."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.http import HttpResponse
from django.test import Client
from PIL import Image

from accounts.models import User
from accounts.pictures import current_picture, reencoder_runner, stored_files
from config import object_store
from oauth_bridge.models import Application
from tests import own_s3
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory
from tests.own_s3 import OwnS3
from tests.pictures import encoded

pytestmark = [pytest.mark.django_db(transaction=True)]
DISK = "64k"

FORM = {"name": "Reading List", "redirect_uris": "https://reading.example/callback", "is_enabled": "on"}
Break = Callable[[OwnS3], None]


@pytest.fixture
def s3(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnS3]:
    """Pictures are in a bucket of the test's own server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", own_s3.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", own_s3.SECRET)
    server = OwnS3()
    settings.STORAGES = {**settings.STORAGES, "default": object_store.storage(server.url)}
    yield server
    server.kill()


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


def kill(s3: OwnS3) -> None:
    s3.kill()


def freeze(s3: OwnS3) -> None:
    s3.process.send_signal(signal.SIGSTOP)


def lose_bucket(s3: OwnS3) -> None:
    for name in s3.names():
        s3.client.delete_object(Bucket=own_s3.BUCKET, Key=name)
    s3.client.delete_bucket(Bucket=own_s3.BUCKET)


@pytest.fixture(params=[kill, freeze, lose_bucket])
def broken(request: pytest.FixtureRequest) -> Break:
    breaking: Break = request.param
    return breaking


# Storing --------------------------------------------------------------------------------------------------------------


def test_a_picture_that_cannot_be_stored_is_a_sentence_and_the_nickname_is_saved(
    browser: Client, alice: User, s3: OwnS3, broken: Break, caplog: pytest.LogCaptureFixture
) -> None:
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    alice.refresh_from_db()
    before = alice.avatar
    assert s3.names() == [f"of-people/{before}"]
    broken(s3)
    page = browser.post("/accounts/profile", {"nickname": "Typed", "picture": large_picture("blue")}, follow=True)
    assert page.status_code == 200
    assert "Your picture could not be saved because of a fault on our side." in page.content.decode()
    alice.refresh_from_db()
    assert (alice.nickname, alice.avatar) == ("Typed", before)
    assert len(logged(caplog, "a file could not be stored")) == 1


@pytest.mark.parametrize("is_new", [True, False], ids=["registered", "changed"])
def test_a_logo_that_cannot_be_stored_is_a_sentence_and_the_rest_is_saved(
    admin_client: Client, s3: OwnS3, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    row = None if is_new else ApplicationFactory(logo="").row
    kill(s3)
    path = "/admin/oauth_bridge/application/" + ("add/" if row is None else f"{row.pk}/change/")
    page = admin_client.post(path, {**FORM, "client_type": "confidential", "new_logo": large_picture()}, follow=True)
    assert page.status_code == 200
    assert "The logo could not be saved because of a fault on our side." in page.content.decode()
    application = Application.objects.get(name="Reading List")
    assert application.logo == ""
    assert len(logged(caplog, "a file could not be stored")) == 1


def test_once_the_store_answers_the_picture_is_stored(browser: Client, alice: User, s3: OwnS3) -> None:
    kill(s3)
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    s3.start()
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    alice.refresh_from_db()
    assert s3.names() == [f"of-people/{alice.avatar}"]


def test_a_picture_that_cannot_be_deleted_is_removed_from_the_profile(
    browser: Client, alice: User, s3: OwnS3, caplog: pytest.LogCaptureFixture
) -> None:
    set_picture(alice)
    kill(s3)
    page = browser.post("/accounts/profile", {"remove_picture": "1"}, follow=True)
    assert "Your picture is removed." in page.content.decode()
    assert User.objects.get(pk=alice.pk).avatar == ""
    assert len(logged(caplog, "a file could not be deleted")) == 1


def test_a_logo_of_a_form_with_another_error_is_not_stored(admin_client: Client, s3: OwnS3) -> None:
    page = admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "redirect_uris": "x", "new_logo": large_picture()}
    )
    assert page.status_code == 200
    assert s3.names() == []


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
    stored_files.warn_unreadable.cache_clear()


def lose(s3: OwnS3) -> None:
    for name in s3.names():
        s3.client.delete_object(Bucket=own_s3.BUCKET, Key=name)


@contract("D16.lost")
@pytest.mark.parametrize("break_store", [lose, kill, freeze])
def test_a_picture_that_cannot_be_read_is_drawn_kept_by_no_cache_and_seen_once_it_is_back(
    client: Client, alice: User, s3: OwnS3, caplog: pytest.LogCaptureFixture, break_store: Break
) -> None:
    set_picture(alice)
    content = stored_files.read(alice.avatar)
    address = current_picture.avatar_url(alice).removeprefix("http://testserver")
    true = client.get(address)
    break_store(s3)
    for asked in ({}, {"if-none-match": '"000000000000"'}):
        drawn = client.get(address, headers=asked)
        assert (drawn.status_code, drawn.content) == (200, current_picture.drawn(alice))
        assert drawn["Cache-Control"] == "no-store"
        assert "ETag" not in drawn
    # A browser that shows the right picture keeps showing it.
    assert client.get(address, headers={"if-none-match": true["ETag"]}).status_code == 304
    assert [record.levelname for record in logged(caplog, "a picture can't be read")] == ["WARNING"]
    if s3.process.poll() is not None:
        s3.start()
    s3.process.send_signal(signal.SIGCONT)
    stored_files.store(alice.avatar, content)
    assert client.get(address).content == true.content


@pytest.mark.parametrize("break_store", [lose, kill])
def test_a_logo_that_cannot_be_read_is_not_found_and_kept_by_no_cache(
    admin_client: Client, s3: OwnS3, caplog: pytest.LogCaptureFixture, break_store: Break
) -> None:
    admin_client.post(
        "/admin/oauth_bridge/application/add/", {**FORM, "client_type": "public", "new_logo": large_picture()}
    )
    name = Application.objects.get().logo
    assert admin_client.get(f"/logos/{name}").status_code == 200
    break_store(s3)
    for _ in range(2):
        answer = admin_client.get(f"/logos/{name}")
        assert (answer.status_code, answer["Cache-Control"]) == (404, "no-store")
    assert len(logged(caplog, "a picture can't be read")) == 1


def test_a_logo_that_nobody_has_is_no_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get(f"/logos/{'0' * 32}.png").status_code == 404
    assert not logged(caplog, "a picture can't be read")
