"""The store of pictures, or the folder of temporary files, can't be written or read: a sentence, never a 500."""

from __future__ import annotations

import io
import socket
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
from tests.server import free_port

pytestmark = [pytest.mark.django_db(transaction=True)]
DISK = "64k"

FORM = {"name": "Reading List", "redirect_uris": "https://reading.example/callback", "is_enabled": "on"}


class Store:
    """A store of pictures in a bucket. `lost`, `away` and `silent` break it, and `mended` takes that back."""

    def __init__(self, server: OwnS3, settings: Any, listener: socket.socket) -> None:
        self.server, self.settings, self.listener = server, settings, listener
        self.names = server.names
        self.mended()

    def mended(self) -> None:
        self._use(self.server.url)

    def lost(self) -> None:
        """The files are gone."""
        for name in self.server.names():
            self.server.client.delete_object(Bucket=own_s3.BUCKET, Key=name)

    def without_bucket(self) -> None:
        self._use(self.server.url.replace(own_s3.BUCKET, "nowhere"))

    def away(self) -> None:
        """Nothing listens there."""
        self._use(self.server.url.replace(str(self.server.port), str(free_port())))

    def silent(self) -> None:
        """It takes connections, and answers none."""
        self._use(self.server.url.replace(str(self.server.port), str(self.listener.getsockname()[1])))

    def _use(self, url: str) -> None:
        self.settings.STORAGES = {**self.settings.STORAGES, "default": object_store.storage(url)}


Break = Callable[[Store], None]


@pytest.fixture(scope="module")
def server() -> Iterator[OwnS3]:
    """One for all tests of the module."""
    server = OwnS3()
    yield server
    server.kill()


@pytest.fixture
def s3(server: OwnS3, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Pictures are in an empty bucket of this server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", own_s3.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", own_s3.SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = Store(server, settings, listener)
        store.lost()
        yield store


def large_picture(colour: str = "red") -> io.BytesIO:
    """A file of more than 64 kB, which is received in several parts."""
    file = io.BytesIO(encoded(Image.new("RGB", (300, 300), colour), compress_level=0))
    file.name = "me.png"
    return file


def set_picture(person: User) -> None:
    current_picture.set_picture(person, reencoder_runner.reencode(ContentFile(large_picture().getvalue())))


def add_with_logo(admin_client: Client, **changes: str) -> Any:
    form = {**FORM, "client_type": "public", "new_logo": large_picture(), **changes}
    return admin_client.post("/admin/oauth_bridge/application/add/", form)


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[Any]:
    return [record for record in caplog.records if record.message == message]


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(512)):
            pass


# Storing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("break_store", [Store.away, Store.silent, Store.without_bucket])
def test_a_picture_that_cannot_be_stored_is_a_sentence_and_is_stored_once_the_store_answers(
    browser: Client, alice: User, s3: Store, break_store: Break, caplog: pytest.LogCaptureFixture
) -> None:
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": large_picture()})
    alice.refresh_from_db()
    before = alice.avatar
    assert s3.names() == [f"of-people/{before}"]
    break_store(s3)
    page = browser.post("/accounts/profile", {"nickname": "Typed", "picture": large_picture("blue")}, follow=True)
    assert page.status_code == 200
    assert "Your picture could not be saved because of a fault on our side." in page.content.decode()
    alice.refresh_from_db()
    assert (alice.nickname, alice.avatar) == ("Typed", before)
    assert len(logged(caplog, "a file could not be stored")) == 1
    s3.mended()
    browser.post("/accounts/profile", {"nickname": "Typed", "picture": large_picture("blue")})
    alice.refresh_from_db()
    assert alice.avatar != before
    assert f"of-people/{alice.avatar}" in s3.names()


@pytest.mark.parametrize("is_new", [True, False], ids=["registered", "changed"])
def test_a_logo_that_cannot_be_stored_is_a_sentence_and_the_rest_is_saved(
    admin_client: Client, s3: Store, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    row = None if is_new else ApplicationFactory(logo="").row
    s3.away()
    path = "/admin/oauth_bridge/application/" + ("add/" if row is None else f"{row.pk}/change/")
    page = admin_client.post(path, {**FORM, "client_type": "confidential", "new_logo": large_picture()}, follow=True)
    assert page.status_code == 200
    assert "The logo could not be saved because of a fault on our side." in page.content.decode()
    application = Application.objects.get(name="Reading List")
    assert application.logo == ""
    assert len(logged(caplog, "a file could not be stored")) == 1


def test_a_picture_that_cannot_be_deleted_is_removed_from_the_profile(
    browser: Client, alice: User, s3: Store, caplog: pytest.LogCaptureFixture
) -> None:
    set_picture(alice)
    s3.away()
    page = browser.post("/accounts/profile", {"remove_picture": "1"}, follow=True)
    assert "Your picture is removed." in page.content.decode()
    assert User.objects.get(pk=alice.pk).avatar == ""
    assert len(logged(caplog, "a file could not be deleted")) == 1


def test_a_logo_of_a_form_with_another_error_is_not_stored(admin_client: Client, s3: Store) -> None:
    page = add_with_logo(admin_client, redirect_uris="x")
    assert page.status_code == 200
    assert s3.names() == []


# Receiving ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["full", "no folder"])
def temporary(request: pytest.FixtureRequest, settings: Any, disk: Path, alice: User) -> None:
    """The folder of temporary files can't be written; the store can."""
    settings.FILE_UPLOAD_TEMP_DIR = str(disk if request.param == "full" else disk / "missing")
    fill(disk)


@pytest.mark.parametrize("size", [100, 200_000])
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
    page = add_with_logo(admin_client)
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


@contract("D16.lost")
@pytest.mark.parametrize("break_store", [Store.lost, Store.away, Store.silent])
def test_a_picture_that_cannot_be_read_is_drawn_kept_by_no_cache_and_seen_once_it_is_back(
    client: Client, alice: User, s3: Store, caplog: pytest.LogCaptureFixture, break_store: Break
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
    s3.mended()
    stored_files.store(alice.avatar, content)
    assert client.get(address).content == true.content


@pytest.mark.parametrize("break_store", [Store.lost, Store.away])
def test_a_logo_that_cannot_be_read_is_not_found_and_kept_by_no_cache(
    admin_client: Client, s3: Store, caplog: pytest.LogCaptureFixture, break_store: Break
) -> None:
    add_with_logo(admin_client)
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
