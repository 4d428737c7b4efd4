"""Uploaded pictures: what becomes of them, and what is refused."""

from __future__ import annotations

import io
import zlib
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

from accounts.models import User
from accounts.pictures import reencoder, reencoder_runner
from accounts.pictures.reencoder_runner import Crop
from tests.factories import encoded, opened, picture, striped, upload

RED, GREEN, BLUE = (255, 0, 0, 255), (0, 128, 0, 255), (0, 0, 255, 255)


def made(content: bytes, size: int = 256, crop: Crop = reencoder_runner.MIDDLE) -> Image.Image:
    """What the program would make of the picture, without a start of it."""
    return opened(reencoder.square(Image.open(io.BytesIO(content)), size, crop.zoom, crop.x, crop.y))  # type: ignore[arg-type]


def reencode(file: SimpleUploadedFile) -> bytes:
    """An upload of a new person, who has reached no limit."""
    return reencoder_runner.reencode(file, User())


def is_near(colour: Any, other: tuple[int, ...]) -> bool:
    return all(abs(one - two) < 12 for one, two in zip(colour, other, strict=True))


# What is made ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_every_accepted_picture_becomes_a_square_png(kind: str) -> None:
    """By its content: the name of a file says nothing."""
    result = opened(reencode(upload(picture(kind, (1200, 800)), "../../me.exe")))
    assert (result.format, result.size) == ("PNG", (256, 256))
    assert is_near(result.getpixel((128, 128)), RED)


@pytest.mark.parametrize("size", [(40, 30), (30, 900), (1, 1)])
def test_a_small_picture_is_enlarged(size: tuple[int, int]) -> None:
    result = made(picture("JPEG", size))
    assert result.size == (256, 256)
    assert is_near(result.getpixel((128, 128)), RED)


def test_every_kind_of_pixel_is_understood() -> None:
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        assert made(encoded(Image.new(mode, (30, 40))), 64).size == (64, 64)
    assert made(encoded(Image.new("CMYK", (30, 40)), "JPEG")).mode == "RGBA"
    grey = Image.new("I;16", (30, 30), 0x8000)
    assert made(encoded(grey)).getpixel((9, 9)) == (128, 128, 128, 255), "16 bits keep their tones"


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_what_is_transparent_stays_so(kind: str) -> None:
    image = Image.new("RGBA", (30, 30), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 30, 15))
    result = made(encoded(image, kind))
    assert result.getpixel((128, 10))[3] == 0  # type: ignore[index]
    assert is_near(result.getpixel((128, 245)), RED)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_a_moving_picture_the_first_image_is_taken(kind: str) -> None:
    others = [Image.new("RGB", (40, 40), colour) for colour in ("blue", "green")]
    moving = encoded(Image.new("RGB", (40, 40), "red"), kind, save_all=True, append_images=others, lossless=True)
    assert is_near(made(moving).getpixel((9, 9)), RED)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_photo_stands_upright_and_its_chosen_part_too(orientation: int, kind: str) -> None:
    upright = striped()
    # Stored so that its EXIF orientation leads back to the upright picture.
    stored = {
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Image.Transpose.ROTATE_180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    photo = encoded(stored, kind, exif=exif, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))
    left = made(photo, 60, Crop(1, 0.25, 0.5))
    assert is_near(left.getpixel((10, 30)), RED)
    assert is_near(left.getpixel((50, 30)), GREEN)
    right = made(photo, 60, Crop(2, 1, 0))
    assert is_near(right.getpixel((30, 30)), BLUE)


@pytest.mark.parametrize(
    ("crop", "colour"), [(Crop(), GREEN), (Crop(1, 0, 0), RED), (Crop(1, 1, 0), BLUE), (Crop(4, 0.5, 1), GREEN)]
)
def test_the_chosen_part_is_taken_the_middle_without_a_choice(crop: Crop, colour: tuple[int, ...]) -> None:
    result = made(encoded(striped()), 60, crop)
    assert all(is_near(result.getpixel(place), colour) for place in ((5, 5), (30, 30), (55, 55)))


def test_zoom_enlarges() -> None:
    image = Image.new("RGB", (100, 100), "red")
    image.paste("blue", (40, 40, 60, 60))
    results = [made(encoded(image), 100, Crop(zoom)) for zoom in (1, 4)]
    assert [is_near(result.getpixel((20, 20)), BLUE) for result in results] == [False, True]


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
        result = reencode(upload(source))
        assert b"SECRET-PLACE" not in result
        assert opened(result).info == {}


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        *(picture(kind, (400, 300))[:-60] for kind in ("JPEG", "PNG", "WEBP")),
        picture("BMP"),
        picture("TIFF"),
        picture("AVIF"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(content: bytes) -> None:
    with pytest.raises(ValidationError, match="not a picture that can be read"):
        reencode(upload(content))


@pytest.mark.parametrize(("size", "kind"), [((50_000, 50_000), "PNG"), ((10_000, 5_201), "GIF")])
def test_a_picture_bomb_is_refused(size: tuple[int, int], kind: str) -> None:
    head = bytearray(picture(kind, (8, 8), "P"))
    if kind == "PNG":
        head[16:24] = b"".join(length.to_bytes(4, "big") for length in size)
        head[29:33] = zlib.crc32(head[12:29]).to_bytes(4, "big")
    else:
        head[6:10] = b"".join(length.to_bytes(2, "little") for length in size)
    with pytest.raises(ValidationError, match="more than 50 megapixels"):
        reencode(upload(bytes(head)))
