"""The program that reads an uploaded picture: what it makes, what it refuses, and its bounds of memory and time."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

from accounts.errors import FormError
from accounts.models import User
from accounts.pictures import reencoder, reencoder_runner
from accounts.pictures.reencoder_runner import MIDDLE, Part
from tests.factories import encoded, opened, picture, striped, upload
from tests.server import ROOT, children_of

RED, GREEN, BLUE = (255, 0, 0, 255), (0, 128, 0, 255), (0, 0, 255, 255)
# Each leads back to the upright picture that is stored with this EXIF orientation, from 2 on.
TURNS = "FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_90 TRANSVERSE ROTATE_270"


def made(content: bytes, size: int = 256, part: Part = MIDDLE) -> Image.Image:
    """What the program would make of the picture, without a start of it."""
    return opened(reencoder.square(Image.open(io.BytesIO(content)), size, *part))  # type: ignore[arg-type]


def reencode(content: bytes) -> bytes:
    """An upload of a new person, who has reached no limit. The name of a file says nothing."""
    return reencoder_runner.reencode(upload(content, "../../me.exe"), User())


def refusal(content: bytes) -> str:
    with pytest.raises(FormError) as refused:
        reencode(content)
    return refused.value.fault.name


def is_near(colour: Any, other: tuple[int, ...]) -> bool:
    return all(abs(one - two) < 12 for one, two in zip(colour, other, strict=True))


def test_every_accepted_picture_of_any_size_and_kind_of_pixel_becomes_a_square_png() -> None:
    for kind in ("JPEG", "PNG", "GIF", "WEBP"):
        result = opened(reencode(picture(kind, (1200, 800))))
        assert (result.format, result.size) == ("PNG", (256, 256))
        assert is_near(result.getpixel((128, 128)), RED)
    for size in ((30, 900), (1, 1)):
        assert is_near(made(picture("JPEG", size)).getpixel((128, 128)), RED)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        assert made(encoded(Image.new(mode, (30, 40))), 64).size == (64, 64)
    assert made(encoded(Image.new("CMYK", (30, 40)), "JPEG")).mode == "RGBA"
    grey = Image.new("I;16", (30, 30), 0x8000)
    assert made(encoded(grey)).getpixel((9, 9)) == (128, 128, 128, 255), "16 bits keep their tones"


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_what_is_transparent_stays_so_and_of_a_moving_picture_the_first_image_is_taken(kind: str) -> None:
    image = Image.new("RGBA", (30, 30), RED)
    image.paste((0, 0, 0, 0), (0, 0, 30, 15))
    others = [Image.new("RGBA", (30, 30), colour) for colour in ("blue", "green")]
    for more in ({}, {"save_all": True, "append_images": others, "lossless": True}):
        result = made(encoded(image, kind, **more))
        assert result.getpixel((128, 10))[3] == 0  # type: ignore[index]
        assert is_near(result.getpixel((128, 245)), RED)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_photo_stands_upright_and_its_chosen_part_too(kind: str) -> None:
    for orientation, turn in enumerate(TURNS.split(), 2):
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        options = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
        photo = encoded(striped().transpose(Image.Transpose[turn]), kind, exif=exif, **options)
        left, right = made(photo, 60, (1, 0.25, 0.5)), made(photo, 60, (2, 1, 0))
        shown = [left.getpixel((10, 30)), left.getpixel((50, 30)), right.getpixel((30, 30))]
        assert all(map(is_near, shown, (RED, GREEN, BLUE))), orientation


def test_colours_become_srgb() -> None:
    assert is_near(made(picture(icc_profile=exchanged())).getpixel((9, 9)), (0, 255, 0, 255))


def exchanged() -> bytes:
    """The profile of sRGB with its primaries exchanged: in a picture with it, red is green."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    places = {bytes(profile[at : at + 4]): at for at in range(132, 132 + 12 * profile[131], 12)}
    for name, at in places.items():
        if name[1:] == b"XYZ" and name[:1] in b"rg":
            profile[at : at + 4] = (b"g" if name[:1] == b"r" else b"r") + b"XYZ"
    return bytes(profile)


def test_metadata_is_gone() -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Artist] = "SECRET-PLACE"
    exif.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSProcessingMethod] = b"SECRET-PLACE"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", "SECRET-PLACE")
    for source in (
        picture("JPEG", exif=exif, comment=b"SECRET-PLACE", icc_profile=b"SECRET-PLACE"),
        picture("PNG", pnginfo=texts, exif=exif, icc_profile=b"SECRET-PLACE"),
        picture("WEBP", exif=exif, xmp=b"SECRET-PLACE"),
    ):
        assert b"SECRET-PLACE" in source
        result = reencode(source)
        assert (b"SECRET-PLACE" in result, opened(result).info) == (False, {})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        *(picture(kind, (400, 300))[:-60] for kind in ("JPEG", "PNG", "WEBP")),
        *map(picture, ("BMP", "TIFF", "AVIF")),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    assert refusal(content) == "NOT_A_PICTURE"


# A small process between: the system counts the memory of the process that started another as that one's, too.
BETWEEN = """
import resource, subprocess, sys
command = [sys.executable, "-m", "accounts.pictures.reencoder", "256", "1", "0.5", "0.5"]
program = subprocess.run(command, stdout=subprocess.DEVNULL)
print(program.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_a_photo_of_50_megapixels_is_read_with_bounded_memory(tmp_path: Path) -> None:
    """Those kinds that need most."""
    ramp = Image.linear_gradient("L").resize((8192, 6144))
    photo = Image.merge("RGB", (ramp, ramp.transpose(0), ramp.transpose(1)))
    progressive = encoded(photo, "JPEG", quality=85, progressive=True, subsampling=0)
    for content, most_mb in ((progressive, 400), (encoded(photo, "WEBP", quality=50, method=0), 900)):
        (tmp_path / "photo").write_bytes(content)
        with open(tmp_path / "photo", "rb") as source:
            command = [sys.executable, "-c", BETWEEN]
            run = subprocess.run(command, stdin=source, capture_output=True, cwd=ROOT, check=True)
        status, kilobytes = map(int, run.stdout.split())
        assert status == reencoder.DONE
        assert kilobytes / 1024 < most_mb, "docs/operations.md counts with 1000"


def test_a_picture_that_says_it_has_2500_megapixels_is_refused_unread() -> None:
    bomb = bytearray(picture())
    bomb[16:24] = (50_000).to_bytes(4, "big") * 2  # width and height in the first chunk of a PNG
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    assert refusal(bytes(bomb)) == "PICTURE_TOO_MANY_PIXELS"


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        ("bytearray(2_000_000_000)", "PICTURE_FAILED"),
        ("while True: pass", "PICTURE_TOO_COSTLY"),
        ("import time; time.sleep(3600)", "PICTURE_TOO_COSTLY"),
        ("os.kill(os.getpid(), 11)", "PICTURE_FAILED"),
        ("sys.stdout.buffer.write(bytes(5_000_000))", "PICTURE_FAILED"),
    ],
)
def test_a_program_that_fails_is_a_sentence(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, statements: str, fault: str
) -> None:
    """The program runs from a folder of the test, with other statements before its own."""
    if "sleep" in statements:
        monkeypatch.setattr(reencoder_runner, "RUN_SECONDS", 1.0)
    (package := tmp_path / "accounts" / "pictures").mkdir(parents=True)
    source = Path(reencoder.__file__).read_text()
    changed = source.replace("    Image.MAX_IMAGE_PIXELS", f"    {statements}\n    Image.MAX_IMAGE_PIXELS", 1)
    changed = changed.replace(f"MAX_CPU_SECONDS = {reencoder.MAX_CPU_SECONDS}", "MAX_CPU_SECONDS = 2", 1)
    (package / "reencoder.py").write_text(changed)
    settings.BASE_DIR = tmp_path
    before = children_of(os.getpid())
    assert refusal(picture()) == fault
    assert children_of(os.getpid()) == before


def test_a_system_without_room_for_the_program_is_not_the_fault_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    assert refusal(picture()) == "PICTURE_FAILED"
