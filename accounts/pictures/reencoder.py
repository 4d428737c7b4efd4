"""Decode an uploaded picture: `python -m accounts.pictures.reencoder SIZE ZOOM X Y <upload >result`.

Decoders have security bugs and need much memory, so each picture gets a process with limits and without SECRET_KEY.
"""

from __future__ import annotations

import io
import os
import resource
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

MAX_PIXELS = 52_000_000  # telephones with "50 megapixels" make pictures of up to 8192 x 6144
MAX_MEMORY = 1_000_000_000  # bytes; a WebP picture of MAX_PIXELS with alpha needs 880 MB
MAX_CPU_SECONDS = 6  # 50 megapixels of WebP take up to 2.9 seconds
NICENESS = 5  # the requests of the workers have priority
MAX_RESULT_BYTES = 1024 * 1024

DONE, NOT_A_PICTURE, TOO_MANY_PIXELS, TOO_COSTLY = 0, 10, 11, 12

FORMATS = ["JPEG", "PNG", "GIF", "WEBP"]


def main(size: int, zoom: float, x: float, y: float) -> int:
    bound(resource.RLIMIT_AS, MAX_MEMORY)
    bound(resource.RLIMIT_CPU, MAX_CPU_SECONDS)
    bound(resource.RLIMIT_FSIZE, MAX_RESULT_BYTES)
    bound(resource.RLIMIT_CORE, 0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # if memory runs out, the system kills this process instead of a worker
    os.nice(NICENESS)
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(sys.stdin.buffer, formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return TOO_MANY_PIXELS
            result = square(picture, size, zoom, x, y)
    except Image.DecompressionBombError:
        return TOO_MANY_PIXELS
    except MemoryError:
        return TOO_COSTLY
    except Exception:  # decoders raise many kinds of exceptions for malformed files
        return NOT_A_PICTURE
    sys.stdout.buffer.write(result)
    return DONE


def bound(limit: int, value: int) -> None:
    _soft, hard = resource.getrlimit(limit)
    highest = value + 1  # above `value`: at the hard limit of CPU time, SIGKILL replaces SIGXCPU
    hard = highest if hard == resource.RLIM_INFINITY else min(highest, hard)
    resource.setrlimit(limit, (min(value, hard), hard))


def square(picture: ImageFile, size: int, zoom: float, x: float, y: float) -> bytes:
    """Return a square part of the upright picture as a PNG. `x`: 0 (left) to 1 (right). `y`: 0 (top) to 1 (bottom)."""
    from PIL import Image, ImageOps

    least = 2 * size * zoom  # pixels of the shorter side; a larger picture is reduced first, to save memory
    picture.draft("RGB", (round(least),) * 2)
    picture.load()
    scale = min(1, least / min(picture.size))
    upright = resizable(picture).resize(
        tuple(max(1, round(side * scale)) for side in picture.size), Image.Resampling.LANCZOS, reducing_gap=3
    )
    with suppress(Exception):  # unreadable metadata
        upright = ImageOps.exif_transpose(upright)
    side = min(upright.size) / zoom
    left, top = (upright.width - side) * x, (upright.height - side) * y
    part = upright.resize((size, size), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side))
    # The new picture gets no metadata.
    clean = Image.new("RGBA", (size, size))
    clean.paste(in_srgb(part, picture.info.get("icc_profile")))
    output = io.BytesIO()
    clean.save(output, "PNG", optimize=True)
    return output.getvalue()


def resizable(picture: Image) -> Image:
    if picture.mode.startswith("I"):  # 16-bit grey
        return picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    is_transparent = picture.has_transparency_data
    fitting = ("LA", "RGBA") if is_transparent else ("L", "RGB", "CMYK")
    return picture if picture.mode in fitting else picture.convert("RGBA" if is_transparent else "RGB")


def in_srgb(picture: Image, profile: bytes | None) -> Image:
    """Return the picture in sRGB. Ignore a colour profile that does not fit, as browsers do."""
    from PIL import ImageCms

    alpha = picture.getchannel("A") if picture.mode in ("LA", "RGBA") else None
    colours = picture.convert(picture.mode.removesuffix("A")) if alpha else picture
    converted = None
    if profile:
        with suppress(ImageCms.PyCMSError, OSError):
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            converted = ImageCms.profileToProfile(colours, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    result = converted or colours.convert("RGB")
    if alpha:
        result.putalpha(alpha)
    return result


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *map(float, sys.argv[2:5])))
