"""Where pictures and logos are kept, and how they move. Contract, operator's interface: PICTURES."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import StoredPicture, User
from accounts.pictures import current_picture, stored_files
from config import environment
from tests.factories import PersonFactory

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG of a test"


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """MEDIA_ROOT, with a picture and a logo of an earlier release."""
    settings.MEDIA_ROOT = tmp_path
    for name in ("avatars/a.png", "logos/b.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(PNG)
    return tmp_path


def migrate(verbosity: int = 1) -> str:
    output = io.StringIO()
    call_command("migrate", stdout=output, verbosity=verbosity)
    return output.getvalue()


def move(source: object) -> str:
    output = io.StringIO()
    call_command("move-pictures", str(source), stdout=output)
    return output.getvalue()


def test_a_picture_is_a_row_that_is_replaced_and_deleted() -> None:
    for content in (PNG, b"another"):
        stored_files.store("avatars/a.png", content)
        assert stored_files.read("avatars/a.png") == content
    stored_files.delete("avatars/a.png")
    assert not StoredPicture.objects.exists()
    with pytest.raises(FileNotFoundError):
        stored_files.read("avatars/a.png")


def test_a_picture_of_an_earlier_release_is_read_from_its_folder_and_deleted_there(
    client: Client, folder: Path, django_capture_on_commit_callbacks: Any
) -> None:
    alice = PersonFactory(avatar="avatars/a.png")
    assert client.get(current_picture.avatar_url(alice).removeprefix("http://testserver")).content == PNG
    migrate()
    with django_capture_on_commit_callbacks(execute=True):
        current_picture.remove_picture(User.objects.get(pk=alice.pk))
    assert not (folder / "avatars" / "a.png").exists()
    assert list(StoredPicture.objects.values_list("name", flat=True)) == ["logos/b.png"]


def test_migrate_copies_what_the_folder_has_and_leaves_it_there(folder: Path) -> None:
    (folder / "avatars" / "a.png.unfinished").write_bytes(b"")
    assert "2 pictures in MEDIA_ROOT are in the store of PICTURES too." in migrate()
    assert dict(StoredPicture.objects.values_list("name", "content")) == {"avatars/a.png": PNG, "logos/b.png": PNG}
    StoredPicture.objects.filter(name="avatars/a.png").update(content=b"newer")
    (folder / "logos" / "c.png").write_bytes(PNG)
    migrate(verbosity=0)
    assert stored_files.read("avatars/a.png") == b"newer"
    assert (folder / "avatars" / "a.png").exists()
    assert StoredPicture.objects.filter(name="logos/c.png").exists()


def test_migrate_of_one_app_copies_nothing(folder: Path) -> None:
    call_command("migrate", "accounts", verbosity=0)
    assert not StoredPicture.objects.exists()


def test_move_pictures_empties_the_folder_and_can_be_run_again(folder: Path) -> None:
    assert move(folder) == "2 pictures are moved.\n"
    assert StoredPicture.objects.count() == 2
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert move(folder) == "0 pictures are moved.\n"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("database", "This is the store that PICTURES names. Name the one to move pictures from."),
        ("/there/is/none", "/there/is/none is not a folder."),
        ("media", "The source must be the full path of a folder, database or s3://bucket/folder"),
        ("s3://x", "The source must be the full path of a folder, database or s3://bucket/folder"),
    ],
)
def test_a_source_that_is_none_is_refused(source: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence.replace("?", r"\?")):
        move(source)


def test_a_bucket_is_read_from_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PICTURES", "s3://pictures.example/of/people?endpoint=https://s3.example:9000&region=eu-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "text")
    assert environment.pictures("PICTURES")["OPTIONS"] == {
        "bucket_name": "pictures.example",
        "location": "of/people",
        "endpoint_url": "https://s3.example:9000",
        "region_name": "eu-1",
        "access_key": "key",
        "secret_key": "text",
    }
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ImproperlyConfigured, match="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither"):
        environment.pictures("PICTURES")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("PICTURES", "s3://pictures")
    assert environment.pictures("PICTURES")["OPTIONS"]["access_key"] is None


def test_an_s3_store_without_its_packages_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PICTURES", "s3://pictures")
    monkeypatch.setattr("config.object_store.find_spec", lambda _name: None)
    with pytest.raises(ImproperlyConfigured, match=r"needs the packages of requirements/s3\.txt"):
        environment.pictures("PICTURES")
