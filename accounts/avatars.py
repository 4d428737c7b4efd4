"""Pictures of people: what they upload, made safe, and what is drawn for them when they upload nothing.

Specification 2.4; D16. Every picture is a square PNG made here; no byte of an upload is served as it came.
"""

from __future__ import annotations

import hashlib
import io
import threading
import uuid
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.base import File
from django.db import transaction
from django.utils.translation import gettext as _
from PIL import Image, ImageOps

from accounts import media
from accounts.initials import drawn_avatar
from accounts.models import User
from accounts.uploads import UPLOAD_MAX_BYTES, LostUpload

SIZE_PIXELS = 256
# A JPEG is decoded small at once. Of other formats a decoder takes up to 16 bytes a pixel.
UPLOAD_MAX_MEGAPIXELS = {"JPEG": 25}
UPLOAD_MAX_MEGAPIXELS_OF_OTHERS = 10
ACCEPTED_FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
ACCEPTED_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

# A picture takes up to 160 MB while it is decoded, so a process decodes one at a time.
_one_at_a_time = threading.Lock()


def avatar_url(user: User) -> str:
    """The `avatar` claim: an address at BASE_URL that changes when the picture does. Specification 2.4; D16."""
    # Not `reverse`, which costs more than the rest of the four claims.
    return f"{settings.BASE_URL}/avatars/{user.pk}/{version(user)}.png"


def version(user: User) -> str:
    """Stands for what the picture shows. Says nothing about the person but that it changed."""
    shown = f"{user.pk}|{user.avatar}|{'' if user.avatar else user.nickname}"
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


def png(user: User) -> bytes | None:
    """The picture to serve: the uploaded one, None when it can't be read, or the drawn one when there is none."""
    if not user.avatar:
        return drawn(user)
    try:
        return media.read(user.avatar)
    except OSError:
        media.warn_unreadable(user.avatar)
        return None


def drawn(user: User) -> bytes:
    """A picture of the nickname's initials, never of the e-mail address."""
    return drawn_avatar(user.pk, user.nickname, SIZE_PIXELS)


def set_picture(user: User, picture: bytes) -> None:
    """Keep a picture that `reencode` made, in place of the one before. Raises NotStored: that one stays."""
    name = f"avatars/{uuid.uuid4().hex}.png"
    media.store(name, picture)
    try:
        _replace(user, name)
    except BaseException:
        media.delete(name)
        raise


def remove_picture(user: User) -> None:
    _replace(user, "")


def delete_file(name: str) -> None:
    """Drop a stored picture once the database no longer names it."""
    if name:
        transaction.on_commit(lambda: media.delete(name))


def _replace(user: User, name: str) -> None:
    with transaction.atomic():
        # Re-read under a lock: of two uploads at once, each deletes the file the other one replaced.
        before = User.objects.select_for_update().values_list("avatar", flat=True).get(pk=user.pk)
        user.avatar = name
        user.save(update_fields=["avatar"])
        delete_file(before)


def reencode(upload: File[Any], size: int = SIZE_PIXELS) -> bytes:
    """A square PNG of `size` pixels cut from the middle of an uploaded picture, upright and without its metadata.

    Raises ValidationError: more than 5 MB or too many pixels, not a JPEG, PNG, GIF or WebP picture, or lost.
    """
    if isinstance(upload, LostUpload):
        raise ValidationError(
            _("The picture could not be received because of a fault on our side. Nothing is saved. Try again later."),
            code="lost",
        )
    if upload.size > UPLOAD_MAX_BYTES:
        raise ValidationError(_("This picture is larger than 5 MB. Choose a smaller one."), code="too_large")
    with _one_at_a_time:
        try:
            with Image.open(upload, formats=ACCEPTED_FORMATS) as picture:
                limit = UPLOAD_MAX_MEGAPIXELS.get(picture.format or "", UPLOAD_MAX_MEGAPIXELS_OF_OTHERS)
                if picture.width * picture.height > limit * 1_000_000:
                    raise _too_many_pixels(limit)
                return _square_png(picture, size)
        except ValidationError:
            raise
        except Image.DecompressionBombError as error:
            raise _too_many_pixels() from error
        except Exception as error:  # whatever a decoder does with hostile bytes, this is not a picture we can read
            raise ValidationError(
                _("This file is not a picture that can be read. Choose a JPEG, PNG, GIF or WebP picture."),
                code="not_a_picture",
            ) from error


def _square_png(picture: Image.Image, size: int) -> bytes:
    picture.draft("RGB", (size, size))  # a JPEG is decoded small at once
    upright: Image.Image = ImageOps.exif_transpose(picture)
    has_pixels_to_mix = upright.mode in ("L", "RGB", "RGBA")
    square = ImageOps.fit(upright if has_pixels_to_mix else upright.convert("RGBA"), (size, size))
    # Pasted onto a new picture: of the old one only the pixels remain.
    clean = Image.new("RGBA", (size, size))
    clean.paste(square)
    output = io.BytesIO()
    clean.save(output, "PNG", optimize=True)
    return output.getvalue()


def _too_many_pixels(limit: int = UPLOAD_MAX_MEGAPIXELS_OF_OTHERS) -> ValidationError:
    text = _("This picture has more than %(count)d megapixels. Choose a smaller one.") % {"count": limit}
    return ValidationError(text, code="too_many_pixels")
