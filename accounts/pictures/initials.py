"""The picture of a person without an upload: the nickname's initials on a background of the person's colour."""

from __future__ import annotations

import colorsys
import functools
import hashlib
import io
import unicodedata
import uuid

from PIL import Image, ImageDraw, ImageFont

from config.infrastructure.colors import TEXT_CONTRAST, WHITE, contrast


def drawn_avatar(sub: uuid.UUID, nickname: str, size: int) -> bytes:
    """A PNG of `size` pixels a side, always the same for the same person and nickname."""
    return _draw(initials(nickname), background(sub), size)


def initials(nickname: str) -> str:
    """One or two capital letters; empty if the built-in font lacks one of the letters."""
    words = nickname.split()
    ends = words[:1] + words[1:][-1:]
    letters = [_first_letter(word) for word in ends]
    return "".join(letters) if all(letters) else ""


def background(sub: uuid.UUID) -> str:
    """The person's colour as #rrggbb: any hue, dark enough for white letters."""
    hue = hashlib.sha256(sub.bytes).digest()[0] / 256
    lightness = 0.5
    while contrast(colour := _colour(hue, lightness), WHITE) < TEXT_CONTRAST:
        lightness -= 0.02
    return colour


def _colour(hue: float, lightness: float) -> str:
    return f"#{bytes(round(value * 255) for value in colorsys.hls_to_rgb(hue, lightness, 0.5)).hex()}"


def _first_letter(word: str) -> str:
    """The first letter or digit of a word, without accents; empty if it is not ASCII: the font has no others."""
    for character in unicodedata.normalize("NFKD", word):
        if character.isalnum():
            return character.upper() if character.isascii() else ""
    return ""


@functools.lru_cache(maxsize=512)
def _draw(text: str, colour: str, size: int) -> bytes:
    picture = Image.new("RGB", (size, size), colour)
    drawing = ImageDraw.Draw(picture)
    if text:
        font = ImageFont.load_default(size=size * (0.42 if len(text) == 2 else 0.5))
        drawing.text((size / 2, size / 2 + size * 0.14), text, fill=WHITE, font=font, anchor="ms")
    else:
        _draw_figure(drawing, size)
    output = io.BytesIO()
    picture.save(output, "PNG", optimize=True)
    return output.getvalue()


def _draw_figure(drawing: ImageDraw.ImageDraw, size: int) -> None:
    """A head and shoulders."""
    middle, unit = size / 2, size / 100
    drawing.ellipse((middle - 17 * unit, 20 * unit, middle + 17 * unit, 54 * unit), fill=WHITE)
    drawing.ellipse((middle - 32 * unit, 62 * unit, middle + 32 * unit, 138 * unit), fill=WHITE)
