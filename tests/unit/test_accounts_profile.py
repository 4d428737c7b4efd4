"""The profile: when it changed, what a person uploads as a picture, and what is drawn otherwise."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import StoredPicture, User
from accounts.pictures import current_picture, reencoder_runner
from accounts.sessions.credential_changes import set_active
from config.branding import contrast
from oauth_bridge.openid.claims import values as claims_of
from tests.contract_coverage import contract
from tests.factories import encoded, opened, picture, striped, upload
from tests.pages import admin_browser, mailed_code

pytestmark = pytest.mark.django_db

RED, GREEN, BLUE = (255, 0, 0, 255), (0, 128, 0, 255), (0, 0, 255, 255)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def path_of(person: User) -> str:
    return current_picture.avatar_url(person).removeprefix("http://testserver")


def save(browser: Client, content: bytes, name: str = "me.png", **fields: str) -> Any:
    return browser.post("/accounts/profile", {"nickname": "Typed", "picture": upload(content, name), **fields})


def assert_is_kept(answer: Any, status: int, error: str) -> None:
    """The form comes back with the sentence and with what was typed."""
    assert answer.status_code == status
    assert error in str(answer.context["form"].errors["picture"])
    assert answer.context["form"]["nickname"].value() == "Typed"
    assert answer.get("Retry-After") == ("10" if status == 503 else None)


@pytest.mark.parametrize("nickname", ["  Ali  ", "", "李小龍", "علي", "👩‍👩‍👧 family", "O'Brien & <Söhne>"])
def test_a_nickname_may_be_in_any_script_or_empty_but_garbles_no_page(
    browser: Client, alice: User, nickname: str
) -> None:
    assert browser.post("/accounts/profile", {"nickname": nickname})["Location"] == "/accounts/profile"
    alice.refresh_from_db()
    assert alice.nickname == nickname.strip()
    assert alice.email.partition("@")[0] not in alice.display_name
    for garbled in ("a\x00b", "a\x1bb", "a\nb", "a\u202eb", "a\u2028b", "x" * 61):
        response = browser.post("/accounts/profile", {"nickname": garbled})
        assert response.context["form"].errors["nickname"]
        assert response.context["person"]["display_name"] == alice.display_name


def test_nobody_promotes_or_confirms_themselves(browser: Client, alice: User) -> None:
    before = {**User.objects.values().get(pk=alice.pk), "nickname": "Ali"}
    del before["profile_changed_at"]
    rights = {"is_staff": "on", "is_superuser": "on", "email_verified_at": "2026-01-01"}
    browser.post("/accounts/profile", {"nickname": "Ali", "email": "root@example.com", "id": uuid.uuid4(), **rights})
    assert User.objects.values(*before).get(pk=alice.pk) == before


@contract("D16.avatar")
@pytest.mark.django_db(transaction=True)
def test_a_picture_or_its_chosen_part_is_uploaded_replaced_and_removed(browser: Client, alice: User) -> None:
    addresses, files = [path_of(alice)], []
    for sliders, colour in (
        ({"zoom": "100", "across": "0", "down": "50"}, RED),
        ({"zoom": "400", "across": "100", "down": "0"}, BLUE),
        ({}, GREEN),
    ):
        save(browser, encoded(striped()), **sliders)
        alice.refresh_from_db()
        addresses.append(path_of(alice))
        files.append(alice.avatar)
        assert opened(browser.get(path_of(alice)).content).getpixel((128, 128)) == colour
    assert len(set(addresses)) == 4
    assert_is_kept(save(browser, b"%PDF-1.7 no picture", nickname="Typed"), 200, "not a picture")
    assert [bool(StoredPicture.read(file)) for file in files] == [False, False, True]
    browser.post("/accounts/profile", {"remove_picture": "1"})
    alice.refresh_from_db()
    assert (alice.avatar, alice.nickname) == ("", "Typed")
    assert not StoredPicture.read(files[2])


def test_a_picture_of_25_mb_is_accepted_and_one_of_more_or_ten_are_refused(browser: Client, alice: User) -> None:
    ten = {f"file{number}": upload(picture()) for number in range(10)}
    assert browser.post("/accounts/profile", ten).status_code == 400
    assert_is_kept(save(browser, picture() + b"\0" * settings.PICTURE_MAX_BYTES), 200, "larger than 25 MB")
    assert save(browser, picture().ljust(settings.PICTURE_MAX_BYTES, b"\0")).status_code == 302
    alice.refresh_from_db()
    assert StoredPicture.read(alice.avatar)


@pytest.mark.integration
def test_one_picture_of_a_person_is_read_at_a_time(browser: Client, alice: User) -> None:
    """Whichever worker reads the other one."""
    cache.add(f"picture:{alice.pk}", True, 60)
    assert_is_kept(save(browser, picture()), 503, "Other pictures are being read")


def test_the_profile_shows_what_applications_receive(browser: Client, alice: User) -> None:
    shown = {fact["name"]: fact["value"] for fact in browser.get("/accounts/profile").context["claims"]}
    assert shown == claims_of(alice)
    assert alice.profile_changed_at
    assert claims_of(alice, ["updated_at"]) == {"updated_at": int(alice.profile_changed_at.timestamp())}
    User.objects.filter(pk=alice.pk).update(email_verified_at=None)
    assert "Not confirmed, so applications receive nothing yet." in browser.get("/accounts/profile").content.decode()


def test_only_a_change_of_what_applications_receive_changes_the_claim(browser: Client, alice: User) -> None:
    """The claim `updated_at`. OpenID Connect Core 1.0 §5.1."""
    administration = f"/admin/accounts/user/{alice.pk}/change/"
    for path, form, is_change in (
        ("/accounts/profile", {"nickname": alice.nickname}, False),
        ("/accounts/profile", {"remove_picture": "1"}, False),  # there was none
        ("/accounts/email", {"email": "new@example.com"}, False),
        (administration, {"nickname": alice.nickname}, False),
        (administration, {"nickname": "Ada"}, True),
        ("/accounts/confirm-email", {"code": ""}, True),
        ("/accounts/profile", {"nickname": "Zoe"}, True),
        ("/accounts/profile", {"picture": upload(picture())}, True),
    ):
        User.objects.filter(pk=alice.pk).update(profile_changed_at=LONG_AGO)
        sender = admin_browser() if path == administration else browser
        sender.post(path, {**form, "code": mailed_code()} if "code" in form else form)
        alice.refresh_from_db()
        assert alice.profile_changed_at
        assert (alice.profile_changed_at > LONG_AGO) is is_change, (path, form)


def test_initials_come_from_the_nickname_and_can_be_read_on_every_colour() -> None:
    letters = {"alice": "A", "alice de la Cruz": "AC", "Ärger Östlich": "AO", "(Alice) 2nd": "A2"}
    letters |= dict.fromkeys(["李小龍", "Alice 李", "علي", "👻", "", "   "], "")
    assert {nickname: current_picture.initials(nickname) for nickname in letters} == letters
    colours = {current_picture.background(uuid.uuid4()) for _ in range(500)}
    assert len(colours) > 100
    assert all(contrast(colour, current_picture.WHITE) >= 4.5 for colour in colours)


def test_the_picture_is_for_anybody_and_any_cache(browser: Client, alice: User) -> None:
    for reader in (Client(), browser):
        with CaptureQueriesContext(connection) as statements:
            response = reader.get(path_of(alice))
        assert len(statements) == 1
        assert (response.status_code, response["Content-Type"]) == (200, "image/png")
        assert response["Cache-Control"] == "public, max-age=2592000"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert (response.cookies, "Cookie" in response.get("Vary", "")) == ({}, False)
        assert opened(response.content).size == (256, 256)
    old = path_of(alice)
    User.objects.filter(pk=alice.pk).update(nickname="Zoe")
    alice.refresh_from_db()
    assert path_of(alice) != old
    response = browser.get(old)
    assert response.content == browser.get(path_of(alice)).content
    assert response["Cache-Control"] == "public, max-age=60", "a changed nickname changes the address"


@contract("D16.lost")
@pytest.mark.parametrize("end", [lambda person: set_active(person, False), User.delete])
def test_a_lost_picture_is_drawn_kept_by_no_cache_and_seen_once_it_is_back(
    client: Client, alice: User, end: Any
) -> None:
    current_picture.set_picture(alice, reencoder_runner.reencode(upload(picture()), alice))
    path = path_of(alice)
    true = client.get(path).content
    StoredPicture.objects.filter(name=alice.avatar).delete()
    drawn = client.get(path)
    assert (drawn.content, drawn["Cache-Control"]) == (current_picture.drawn(alice), "no-store")
    StoredPicture.objects.create(name=alice.avatar, content=true)
    assert client.get(path).content == true
    end(alice)
    assert client.get(path).status_code == 404
