"""The profile page and pictures: what a person uploads, and what is drawn otherwise."""

from __future__ import annotations

import fcntl
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import throttling
from accounts.models import User
from accounts.pictures import current_picture, initials, reencoder, reencoder_runner, stored_pictures
from config.infrastructure.colors import WHITE, contrast
from oauth_bridge.protocol.claims import values as claims_of
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pictures import encoded, opened, picture, striped, upload

pytestmark = pytest.mark.django_db


def path_of(person: User) -> str:
    return current_picture.avatar_url(person).removeprefix("http://testserver")


# Profile --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["me.png", "me." + "x" * 240, "me." + "ü" * 120, "." * 255])
def test_a_received_file_has_no_name_on_the_disk(
    browser: Client, alice: User, settings: Any, tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    """So the one of a worker that is killed is gone, and a long ending of the name that was sent does no harm."""
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    seen = []
    read = reencoder_runner.reencode

    def look(*args: Any, **kwargs: Any) -> bytes:
        seen.append(list(tmp_path.iterdir()))
        return read(*args, **kwargs)

    monkeypatch.setattr(reencoder_runner, "reencode", look)
    answer = browser.post("/accounts/profile", {"nickname": "Ada", "picture": upload(picture(), name)})
    assert (answer.status_code, seen) == (302, [[]])


def test_the_profile_is_for_people_signed_in(client: Client) -> None:
    assert client.get("/accounts/profile")["Location"] == "/accounts/sign-in?next=/accounts/profile"


def test_a_nickname_is_changed(browser: Client, alice: User) -> None:
    assert browser.post("/accounts/profile", {"nickname": "  Ali  "})["Location"] == "/accounts/profile"
    alice.refresh_from_db()
    assert alice.nickname == "Ali"


def test_a_nickname_may_be_empty_and_the_address_is_not_shown_instead(browser: Client, alice: User) -> None:
    browser.post("/accounts/profile", {"nickname": ""})
    alice.refresh_from_db()
    assert alice.email.partition("@")[0] not in alice.display_name


@pytest.mark.parametrize("nickname", ["a\x00b", "a\x1bb", "a\nb", "a\u202eb", "a\u2028b", "x" * 61])
def test_a_nickname_that_would_garble_pages_is_refused(browser: Client, alice: User, nickname: str) -> None:
    response = browser.post("/accounts/profile", {"nickname": nickname})
    assert response.status_code == 200
    assert response.context["form"].errors["nickname"]
    assert response.context["person"]["display_name"] == alice.nickname


@pytest.mark.parametrize("nickname", ["李小龍", "علي", "👩‍👩‍👧 family", "O'Brien & <Söhne>"])
def test_a_nickname_may_be_in_any_script(browser: Client, alice: User, nickname: str) -> None:
    browser.post("/accounts/profile", {"nickname": nickname})
    alice.refresh_from_db()
    assert alice.nickname == nickname


def test_nobody_promotes_or_confirms_themselves(browser: Client, alice: User) -> None:
    before = {**User.objects.values().get(pk=alice.pk), "nickname": "Ali"}
    del before["profile_changed_at"]
    form = {
        "nickname": "Ali",
        "email": "root@example.com",
        "is_staff": "on",
        "is_superuser": "on",
        "id": str(uuid.uuid4()),
    }
    browser.post("/accounts/profile", form)
    assert User.objects.values(*before).get(pk=alice.pk) == before


def test_a_picture_is_uploaded_and_removed(browser: Client, alice: User) -> None:
    drawn = path_of(alice)
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": upload(picture())})
    alice.refresh_from_db()
    file = alice.avatar
    assert stored_pictures.read(file)
    assert path_of(alice) != drawn
    assert opened(browser.get(path_of(alice)).content).getpixel((128, 128)) == (255, 0, 0, 255)
    browser.post("/accounts/profile", {"remove_picture": "1"})
    alice.refresh_from_db()
    assert alice.avatar == ""
    assert alice.nickname == "Ali"


@pytest.mark.django_db(transaction=True)
def test_the_old_picture_is_deleted(browser: Client, alice: User) -> None:
    files = []
    for _ in range(2):
        browser.post("/accounts/profile", {"nickname": "Ali", "picture": upload(picture())})
        alice.refresh_from_db()
        files.append(alice.avatar)
    assert not stored_pictures.read(files[0])
    assert stored_pictures.read(files[1])
    browser.post("/accounts/profile", {"remove_picture": "1"})
    assert not stored_pictures.read(files[1])


@contract("D16.avatar")
def test_a_file_that_is_no_picture_is_refused_and_nothing_is_lost(browser: Client, alice: User) -> None:
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": upload(picture())})
    alice.refresh_from_db()
    response = browser.post("/accounts/profile", {"nickname": "New", "picture": upload(b"%PDF-1.7 no picture")})
    assert response.status_code == 200
    assert "not a picture" in str(response.context["form"].errors["picture"])
    assert response.context["form"]["nickname"].value() == "New"
    before = alice.avatar
    alice.refresh_from_db()
    assert (alice.avatar, alice.nickname) == (before, "Ali")
    assert stored_pictures.read(before)


def test_a_file_of_more_than_25_mb_is_refused_and_the_rest_of_the_form_kept(browser: Client) -> None:
    huge = upload(picture() + b"\0" * settings.PICTURE_MAX_BYTES)
    response = browser.post("/accounts/profile", {"picture": huge, "nickname": "Typed"})
    assert "larger than 25 MB" in str(response.context["form"].errors["picture"])
    assert response.context["form"]["nickname"].value() == "Typed"


def test_a_picture_of_exactly_25_mb_is_accepted(browser: Client, alice: User) -> None:
    largest = upload(picture().ljust(settings.PICTURE_MAX_BYTES, b"\0"))
    assert browser.post("/accounts/profile", {"picture": largest, "nickname": "Ali"}).status_code == 302
    alice.refresh_from_db()
    assert stored_pictures.read(alice.avatar)


@pytest.mark.parametrize(
    ("sliders", "colour"),
    [
        ({}, (0, 128, 0, 255)),
        ({"zoom": "100", "across": "0", "down": "50"}, (255, 0, 0, 255)),
        ({"zoom": "400", "across": "100", "down": "0"}, (0, 0, 255, 255)),
        ({"zoom": "0", "across": "-1", "down": "x"}, (0, 128, 0, 255)),
        ({"zoom": "1e9", "across": "nan", "down": "\x00"}, (0, 128, 0, 255)),
    ],
)
def test_the_chosen_part_is_stored_and_the_middle_without_a_choice(
    browser: Client, alice: User, sliders: dict[str, str], colour: tuple[int, ...]
) -> None:
    browser.post("/accounts/profile", {"nickname": "Ali", "picture": upload(encoded(striped())), **sliders})
    alice.refresh_from_db()
    assert opened(browser.get(path_of(alice)).content).getpixel((128, 128)) == colour


def test_while_other_pictures_are_read_the_page_says_when_to_try_again(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reencoder_runner, "WAIT_SECONDS", 0)
    with open(reencoder.__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        response = browser.post("/accounts/profile", {"nickname": "Typed", "picture": upload(picture())})
    assert (response.status_code, response["Retry-After"]) == (503, "10")
    assert "Other pictures are being read" in str(response.context["form"].errors["picture"])
    assert response.context["form"]["nickname"].value() == "Typed"


def test_one_person_has_one_picture_read_at_a_time(browser: Client, alice: User) -> None:
    """Whichever worker reads the other one. The next is read when that one is done."""
    form = {"nickname": "Typed"}
    with throttling.one_picture(alice) as is_only_one:
        assert is_only_one
        refused = browser.post("/accounts/profile", {**form, "picture": upload(picture())})
        assert (refused.status_code, refused["Retry-After"]) == (503, "10")
        assert "Other pictures are being read" in str(refused.context["form"].errors["picture"])
        with throttling.one_picture(PersonFactory()) as is_only_one:
            assert is_only_one
    assert browser.post("/accounts/profile", {**form, "picture": upload(picture())}).status_code == 302


def test_the_profile_shows_what_applications_receive(browser: Client, alice: User) -> None:
    shown = {fact["name"]: fact["value"] for fact in browser.get("/accounts/profile").context["claims"]}
    assert shown == claims_of(alice)
    User.objects.filter(pk=alice.pk).update(email_verified_at=None)
    assert "Not confirmed, so applications receive nothing yet." in browser.get("/accounts/profile").content.decode()


def test_ten_files_in_one_form_are_refused(browser: Client) -> None:
    files = {f"file{number}": upload(picture()) for number in range(10)}
    assert browser.post("/accounts/profile", files).status_code == 400


# Drawn pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nickname", "letters"),
    [
        ("Alice", "A"),
        ("alice liddell", "AL"),
        ("Alice de la Cruz", "AC"),
        ("Ärger Östlich", "AO"),
        ("(Alice) 2nd", "A2"),
        ("李小龍", ""),
        ("Alice 李", ""),
        ("علي", ""),
        ("👻", ""),
        ("", ""),
        ("   ", ""),
    ],
)
def test_initials_come_from_the_nickname(nickname: str, letters: str) -> None:
    assert initials.initials(nickname) == letters


def test_white_letters_can_be_read_on_every_colour() -> None:
    colours = {initials.background(uuid.uuid4()) for _ in range(500)}
    assert len(colours) > 100
    assert all(contrast(colour, WHITE) >= 4.5 for colour in colours)


@pytest.mark.parametrize("nickname", ["", "Alice", "WW MM", "李"])
def test_a_drawn_picture_is_a_png_of_256_pixels(nickname: str) -> None:
    sub = uuid.uuid4()
    drawn = initials.drawn_avatar(sub, nickname, 256)
    assert opened(drawn).size == (256, 256)
    assert drawn == initials.drawn_avatar(sub, nickname, 256)


def test_a_drawn_picture_says_nothing_of_the_address(alice: User) -> None:
    before = (current_picture.png(alice), current_picture.version(alice))
    alice.email = "zoe@example.org"
    assert (current_picture.png(alice), current_picture.version(alice)) == before
    alice.nickname = ""
    assert current_picture.png(alice) == initials.drawn_avatar(alice.pk, "", 256)


# Serving --------------------------------------------------------------------------------------------------------------


def test_the_picture_is_for_anybody_and_any_cache(client: Client, alice: User) -> None:
    with CaptureQueriesContext(connection) as statements:
        response = client.get(path_of(alice))
    assert response.status_code == 200
    assert response["Content-Type"] == "image/png"
    assert response["Cache-Control"] == "public, max-age=2592000"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert not response.cookies
    assert len(statements) == 1
    assert opened(response.content).size == (256, 256)


def test_no_session_is_read_for_a_picture(browser: Client, alice: User) -> None:
    with CaptureQueriesContext(connection) as statements:
        response = browser.get(path_of(alice))
    assert len(statements) == 1
    assert not response.cookies
    assert "Cookie" not in response.get("Vary", "")


def test_the_address_is_absolute_and_at_base_url(alice: User, settings: Any) -> None:
    settings.BASE_URL = "https://api.example"
    assert current_picture.avatar_url(alice).startswith(f"https://api.example/avatars/{alice.pk}/")


def test_an_unchanged_picture_is_not_sent_again(client: Client, alice: User) -> None:
    etag = client.get(path_of(alice))["ETag"]
    again = client.get(path_of(alice), headers={"if-none-match": etag})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == etag


def test_a_changed_nickname_changes_the_address_and_the_old_one_still_answers(client: Client, alice: User) -> None:
    old = path_of(alice)
    User.objects.filter(pk=alice.pk).update(nickname="Zoe")
    alice.refresh_from_db()
    assert path_of(alice) != old
    response = client.get(old)
    assert response.content == client.get(path_of(alice)).content
    assert response["Cache-Control"] == "public, max-age=60"


def test_a_picture_lost_from_the_disk_is_drawn(client: Client, alice: User) -> None:
    current_picture.set_picture(alice, reencoder_runner.reencode(upload(picture())))
    stored_pictures.delete(alice.avatar)
    assert client.get(path_of(alice)).content == initials.drawn_avatar(alice.pk, alice.nickname, 256)


def test_a_picture_can_only_be_read(client: Client, alice: User) -> None:
    assert client.head(path_of(alice)).status_code == 200
    assert client.post(path_of(alice)).status_code == 405


@pytest.mark.parametrize("change", [{"is_active": False}, None])
def test_a_deactivated_or_deleted_person_has_no_picture(
    client: Client, alice: User, change: dict[str, Any] | None
) -> None:
    path = path_of(alice)
    if change:
        User.objects.filter(pk=alice.pk).update(**change)
    else:
        alice.delete()
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["x/y.png", "{sub}/..png", "{sub}/../x.png", "{sub}/%00.png", "{sub}", "{sub}/a.jpg"])
def test_no_other_path_answers_a_picture(client: Client, alice: User, path: str) -> None:
    assert client.get(f"/avatars/{path.format(sub=alice.pk)}").status_code == 404
