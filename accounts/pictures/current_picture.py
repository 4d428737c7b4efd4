"""The picture of a person: an upload, re-encoded by `reencoder_runner`, or a drawing if the person uploaded none.

Specification 2.4; D16. Every picture is a square PNG that this service made; uploaded bytes are never served.
"""

from __future__ import annotations

import hashlib
import uuid

from django.conf import settings
from django.db import transaction

from accounts.models import User
from accounts.pictures import stored_pictures
from accounts.pictures.initials import drawn_avatar
from accounts.pictures.reencoder_runner import SIZE_PIXELS


def avatar_url(user: User) -> str:
    """Return the `avatar` claim: a URL below BASE_URL that changes with the picture. Specification 2.4; D16."""
    # `reverse` would take longer than the computation of all four claims of user info.
    return f"{settings.BASE_URL}/avatars/{user.pk}/{version(user)}.png"


def version(user: User) -> str:
    """Return a digest that changes with the picture and reveals nothing else about the person."""
    shown = f"{user.pk}|{user.avatar}|{'' if user.avatar else user.nickname}"
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


def png(user: User) -> bytes | None:
    """Return the upload, or a drawing if there is no upload. Return None if the upload is missing from the database."""
    if not user.avatar:
        return drawn(user)
    picture = stored_pictures.read(user.avatar)
    if picture is None:
        stored_pictures.warn_missing(user.avatar)
    return picture


def drawn(user: User) -> bytes:
    """Return a drawing of the nickname's initials. The e-mail address is never used."""
    return drawn_avatar(user.pk, user.nickname, SIZE_PIXELS)


@transaction.atomic
def set_picture(user: User, picture: bytes) -> None:
    """Replace the person's picture with a result of `reencode`."""
    name = f"avatars/{uuid.uuid4().hex}.png"
    stored_pictures.store(name, picture)
    _replace(user, name)


@transaction.atomic
def remove_picture(user: User) -> None:
    _replace(user, "")


def delete_file(name: str) -> None:
    """Delete a stored picture. The caller removes its name from the person's row in the same transaction."""
    if name:
        stored_pictures.delete(name)


def _replace(user: User, name: str) -> None:
    # The lock serializes simultaneous uploads, so each upload deletes the picture that it replaces.
    before = User.objects.select_for_update().values_list("avatar", flat=True).get(pk=user.pk)
    if before == name:  # there was no picture to remove
        return
    user.change_profile(avatar=name)
    delete_file(before)
