"""Draw a picture for a person who has uploaded none: the nickname's initials on a coloured background."""

from __future__ import annotations

import colorsys
import functools
import hashlib
import io
import unicodedata
import uuid

from PIL import Image, ImageDraw, ImageFont

WHITE = "#ffffff"


def drawn_avatar(sub: uuid.UUID, nickname: str, size: int) -> bytes:
    """Return a square PNG, `size` pixels wide. The picture depends only on `sub` and `nickname`."""
    return _draw(initials(nickname), background(sub), size)


def initials(nickname: str) -> str:
    """Return one or two capital letters, or an empty string if the built-in font lacks one of them."""
    words = nickname.split()
    ends = words[:1] + words[1:][-1:]
    letters = [_first_letter(word) for word in ends]
    return "".join(letters) if all(letters) else ""


def background(sub: uuid.UUID) -> str:
    """Return the person's colour as #rrggbb. Each hue is dark enough for white letters (contrast 4.5)."""
    hue = hashlib.sha256(sub.bytes).digest()[0] / 256
    return f"#{bytes(round(value * 255) for value in colorsys.hls_to_rgb(hue, 0.3, 0.5)).hex()}"


def _first_letter(word: str) -> str:
    """Return the first letter or digit of a word, without accents.

    If the result is not ASCII, return an empty string, because the font has only ASCII characters.
    """
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
    """Draw a head and shoulders."""
    middle, unit = size / 2, size / 100
    drawing.ellipse((middle - 17 * unit, 20 * unit, middle + 17 * unit, 54 * unit), fill=WHITE)
    drawing.ellipse((middle - 32 * unit, 62 * unit, middle + 32 * unit, 138 * unit), fill=WHITE)
