"""The profile's picture in a browser: its preview, the part that is shown, and what a browser can't decode."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import requests
from PIL import ExifTags, Image
from playwright.sync_api import Page, expect

from accounts.pictures import current_picture
from tests.browser.conftest import Way, flaws, press

RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)


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


def open_profile(way: Way) -> Page:
    page = way.page()
    way.sign_in(page, path="/accounts/sign-in?next=/accounts/profile")
    return page


def middle_of_preview(page: Page) -> tuple[int, ...]:
    pixel = page.locator("canvas").evaluate("view => [...view.getContext('2d').getImageData(128, 128, 1, 1).data]")
    return tuple(pixel[:3])


def middle_after_save(page: Page, way: Way, settings: Any) -> tuple[int, ...]:
    press(page, "Save")
    expect(page.get_by_text("Your profile is saved.")).to_be_visible()
    settings.BASE_URL = way.server.base_url
    way.person.refresh_from_db()
    content = requests.get(current_picture.avatar_url(way.person), timeout=60).content
    pixel: Any = Image.open(io.BytesIO(content)).getpixel((128, 128))
    return tuple(pixel[:3])


def is_near(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(one - two) < 12 for one, two in zip(colour, other, strict=True))


def test_the_chosen_part_is_shown_before_it_is_saved_and_is_what_is_stored(
    way: Way, photo: Path, settings: Any
) -> None:
    page = open_profile(way)
    across = page.get_by_label("From left to right")
    expect(across).to_be_hidden()
    page.get_by_label("Picture", exact=False).first.set_input_files(photo)
    expect(across).to_be_visible()
    assert is_near(middle_of_preview(page), GREEN)
    expect(page.get_by_label("From top to bottom")).to_be_disabled()  # the picture is not higher than the circle
    across.focus()
    page.keyboard.press("End")
    assert is_near(middle_of_preview(page), BLUE)
    page.get_by_label("Zoom").focus()
    page.keyboard.press("End")
    expect(page.get_by_label("From top to bottom")).to_be_enabled()
    assert flaws(page) == []
    assert is_near(middle_after_save(page, way, settings), BLUE)


def test_a_file_that_is_too_large_or_that_the_browser_can_not_show_gets_a_message(
    way: Way, photo: Path, tmp_path: Path
) -> None:
    (tmp_path / "photo.heic").write_bytes(b"no picture")
    (tmp_path / "large.jpg").write_bytes(bytes(25 * 1024 * 1024 + 1))
    page = open_profile(way)
    file = page.locator("[type=file]")
    file.set_input_files(tmp_path / "large.jpg")
    expect(page.get_by_text("This picture is larger than 25 MB. Choose a smaller one.")).to_be_visible()
    file.set_input_files(photo)
    expect(page.get_by_label("Zoom")).to_be_visible()
    file.set_input_files(tmp_path / "photo.heic")
    expect(page.get_by_text("Your browser can't show this file here.")).to_be_visible()
    expect(page.get_by_label("Zoom")).to_be_hidden()
