"""The picture of a person: an upload that `reencoder_runner` has re-encoded, or a drawing if the person uploaded none.

Specification 2.4; D16. Every picture is a square PNG that this service made; uploaded bytes are never served.
"""

from __future__ import annotations

import hashlib
import uuid

from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from accounts.models import User
from accounts.pictures import stored_pictures
from accounts.pictures.initials import drawn_avatar
from accounts.pictures.reencoder_runner import SIZE_PIXELS

AVATAR_AGE_SECONDS = 30 * 24 * 3600
OLD_AVATAR_AGE_SECONDS = 60


def avatar_url(user: User) -> str:
    """Return the `avatar` claim: a URL below BASE_URL that changes with the picture. Specification 2.4; D16."""
    # `reverse` would take longer than the computation of all four claims of user info.
    return f"{settings.BASE_URL}/avatars/{user.pk}/{current_version(user)}.png"


def current_version(user: User) -> str:
    """Return a digest that changes with the picture and reveals nothing else about the person."""
    shown = f"{user.pk}|{user.avatar}|{'' if user.avatar else user.nickname}"
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


@require_safe
def avatar(request: HttpRequest, sub: uuid.UUID, version: str) -> HttpResponseBase:
    """Serve the picture of the `avatar` claim. The response is public and cacheable. Specification 2.4; D16.

    The URL of an old version returns the current picture, which is cached only briefly. If the picture is missing, the
    response is a drawing of the initials, which is not cached. The view reads no session and sets no cookie.
    """
    person = User.objects.only("avatar", "nickname").filter(pk=sub, is_active=True).first()
    if person is None:
        raise Http404
    current = current_version(person)
    etag = f'"{current}"'
    age = AVATAR_AGE_SECONDS if version == current else OLD_AVATAR_AGE_SECONDS
    headers = {"ETag": etag, "Cache-Control": f"public, max-age={age}"}
    # If the client's ETag matches, the client has the picture, and none is read.
    response = get_conditional_response(request, etag=etag)
    if response is None:
        picture = png(person)
        if picture is None:
            picture, headers = drawn(person), {"Cache-Control": "no-store"}
        response = HttpResponse(picture, content_type="image/png")
    headers |= {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin"}
    for name, value in headers.items():
        response[name] = value
    return response


def png(user: User) -> bytes | None:
    """Return the upload, or a drawing if there is no upload. Return None if the upload is missing from the database."""
    return stored_pictures.read(user.avatar) if user.avatar else drawn(user)


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
    stored_pictures.delete(name)


def _replace(user: User, name: str) -> None:
    # The lock serializes simultaneous uploads, so each upload deletes the picture that it replaces.
    before = User.objects.select_for_update().values_list("avatar", flat=True).get(pk=user.pk)
    if before != name:  # equal if there was no picture to remove
        user.change_profile(avatar=name)
        delete_file(before)
