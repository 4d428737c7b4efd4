"""The profile's picture in a browser: its preview, the part that is shown, and what a browser can't decode."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from PIL import ExifTags, Image
from playwright.sync_api import Page

from accounts.models import User
from accounts.pictures import current_picture
from tests.browser.conftest import Open, press, sign_in
from tests.factories import PASSWORD, PersonFactory
from tests.server import Server

RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)


@pytest.fixture
def alice(committed: None) -> User:
    person: User = PersonFactory(nickname="Alice")
    return person


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Red, green and blue from left to right, stored rotated with an EXIF orientation, as phones do."""
    image = Image.new("RGB", (900, 300), GREEN)
    image.paste(RED, (0, 0, 300, 300))
    image.paste(BLUE, (600, 0, 900, 300))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    image.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "photo.jpg", exif=exif, quality=95)
    return tmp_path / "photo.jpg"


def open_profile(page: Page, provider: Server, person: User) -> None:
    page.goto(f"{provider.auth_url}/accounts/sign-in?next=/accounts/profile")
    sign_in(page, person.email, PASSWORD)


def middle_of_preview(page: Page) -> tuple[int, ...]:
    pixel = page.locator("canvas").evaluate("view => [...view.getContext('2d').getImageData(128, 128, 1, 1).data]")
    return tuple(pixel[:3])


def middle_of_picture(person: User) -> tuple[int, ...]:
    person.refresh_from_db()
    content = requests.get(current_picture.avatar_url(person), timeout=10).content
    pixel: Any = Image.open(io.BytesIO(content)).getpixel((128, 128))
    return tuple(pixel[:3])


def is_near(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(one - two) < 12 for one, two in zip(colour, other, strict=True))


def test_the_chosen_part_is_shown_before_it_is_saved_and_is_what_is_stored(
    page: Page, provider: Server, alice: User, photo: Path, settings: Any
) -> None:
    settings.BASE_URL = provider.base_url
    open_profile(page, provider, alice)
    across = page.get_by_label("From left to right")
    assert not across.is_visible()
    page.get_by_label("Picture", exact=False).first.set_input_files(photo)
    across.wait_for()
    assert is_near(middle_of_preview(page), GREEN)
    assert page.get_by_label("From top to bottom").is_disabled()  # the picture is not higher than the circle
    across.focus()
    page.keyboard.press("End")
    assert is_near(middle_of_preview(page), BLUE)
    page.get_by_label("Zoom").focus()
    page.keyboard.press("End")
    assert page.get_by_label("From top to bottom").is_enabled()
    assert Axe().run(page).violations_count == 0
    press(page, page.get_by_role("button", name="Save"))
    assert page.get_by_text("Your profile is saved.").is_visible()
    assert is_near(middle_of_picture(alice), BLUE)


def test_without_script_the_middle_is_stored(
    open_browser: Open, provider: Server, alice: User, photo: Path, settings: Any
) -> None:
    settings.BASE_URL = provider.base_url
    page = open_browser(java_script_enabled=False).new_page()
    open_profile(page, provider, alice)
    assert not page.get_by_label("Zoom").is_visible()
    page.locator("[type=file]").set_input_files(photo)
    press(page, page.get_by_role("button", name="Save"))
    assert is_near(middle_of_picture(alice), GREEN)


def test_a_file_that_the_browser_can_not_show_gets_a_message_and_can_be_saved(
    page: Page, provider: Server, alice: User, photo: Path, tmp_path: Path, settings: Any
) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    settings.BASE_URL = provider.base_url
    Image.new("RGB", (400, 300), RED).save(tmp_path / "photo.heic", "HEIF")
    open_profile(page, provider, alice)
    page.locator("[type=file]").set_input_files(photo)
    page.get_by_label("Zoom").wait_for()
    page.locator("[type=file]").set_input_files(tmp_path / "photo.heic")
    page.get_by_text("Your browser can't show this file here.").wait_for()
    assert not page.get_by_label("Zoom").is_visible()
    press(page, page.get_by_role("button", name="Save"))
    assert is_near(middle_of_picture(alice), RED)


def test_a_file_that_is_too_large_is_named_before_it_is_sent(
    page: Page, provider: Server, alice: User, tmp_path: Path
) -> None:
    (tmp_path / "large.jpg").write_bytes(bytes(25 * 1024 * 1024 + 1))
    open_profile(page, provider, alice)
    page.locator("[type=file]").set_input_files(tmp_path / "large.jpg")
    page.get_by_text("This picture is larger than 25 MB. Choose a smaller one.").wait_for()
