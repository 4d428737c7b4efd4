"""Pictures as people upload them."""

from __future__ import annotations

import io
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> bytes:
    return encoded(Image.new(mode, size, "red" if mode != "P" else 1), kind, **options)


def striped(width: int = 90, height: int = 30) -> Image.Image:
    """Three squares: red, green, blue, from left to right."""
    image = Image.new("RGB", (width, height), "green")
    image.paste("red", (0, 0, width // 3, height))
    image.paste("blue", (2 * width // 3, 0, width, height))
    return image


def upload(content: bytes, name: str = "me.png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def opened(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    return image
