"""Pictures of people: uploaded ones, re-encoded, and drawn ones for people who uploaded none.

Specification 2.4; D16. Every picture is a square PNG that this service made; uploaded bytes are never served.
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
# A JPEG is decoded at a reduced size. Decoders of other formats need up to 16 bytes a pixel.
UPLOAD_MAX_MEGAPIXELS = {"JPEG": 25}
UPLOAD_MAX_MEGAPIXELS_OF_OTHERS = 10
ACCEPTED_FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
ACCEPTED_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

# Decoding a picture needs up to 160 MB, so a process decodes one at a time.
_one_at_a_time = threading.Lock()


def avatar_url(user: User) -> str:
    """The `avatar` claim: an address at BASE_URL that changes when the picture does. Specification 2.4; D16."""
    # Without `reverse`, which takes longer than the rest of the four claims.
    return f"{settings.BASE_URL}/avatars/{user.pk}/{version(user)}.png"


def version(user: User) -> str:
    """A digest that changes with the picture and reveals nothing else about the person."""
    shown = f"{user.pk}|{user.avatar}|{'' if user.avatar else user.nickname}"
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


def png(user: User) -> bytes | None:
    """The uploaded picture, or the drawn one when there is none. None: the uploaded one can't be read."""
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
    """Store a picture that `reencode` made in place of the present one. Raises NotStored: nothing was changed."""
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
    """Delete a stored picture when the transaction that removes its name commits."""
    if name:
        transaction.on_commit(lambda: media.delete(name))


def _replace(user: User, name: str) -> None:
    with transaction.atomic():
        # Read under a lock, so that of two uploads at the same time each deletes the file that it replaces.
        before = User.objects.select_for_update().values_list("avatar", flat=True).get(pk=user.pk)
        user.avatar = name
        user.save(update_fields=["avatar"])
        delete_file(before)


def reencode(upload: File[Any], size: int = SIZE_PIXELS) -> bytes:
    """A square PNG, `size` pixels wide, of the middle of an uploaded picture: upright and without metadata.

    Raises ValidationError: more than 5 MB, too many pixels, not a JPEG, PNG, GIF or WebP picture, or a LostUpload.
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
        except Exception as error:  # decoders raise many kinds for malformed files
            raise ValidationError(
                _("This file is not a picture that can be read. Choose a JPEG, PNG, GIF or WebP picture."),
                code="not_a_picture",
            ) from error


def _square_png(picture: Image.Image, size: int) -> bytes:
    picture.draft("RGB", (size, size))  # a JPEG is decoded at a reduced size
    upright: Image.Image = ImageOps.exif_transpose(picture)
    can_be_resized = upright.mode in ("L", "RGB", "RGBA")
    square = ImageOps.fit(upright if can_be_resized else upright.convert("RGBA"), (size, size))
    # A new picture takes over the pixels and nothing else.
    clean = Image.new("RGBA", (size, size))
    clean.paste(square)
    output = io.BytesIO()
    clean.save(output, "PNG", optimize=True)
    return output.getvalue()


def _too_many_pixels(limit: int = UPLOAD_MAX_MEGAPIXELS_OF_OTHERS) -> ValidationError:
    text = _("This picture has more than %(count)d megapixels. Choose a smaller one.") % {"count": limit}
    return ValidationError(text, code="too_many_pixels")
