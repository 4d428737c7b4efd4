"""Pictures of people. This service makes each PNG, and never serves uploaded bytes. Specification 2.4."""

from __future__ import annotations

import colorsys
import functools
import hashlib
import io
import unicodedata
import uuid

from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from PIL import Image, ImageDraw, ImageFont

from accounts.models import StoredPicture, User
from accounts.pictures.reencoder_runner import SIZE_PIXELS

AVATAR_AGE_SECONDS = 30 * 24 * 3600
OLD_AVATAR_AGE_SECONDS = 60
WHITE = "#ffffff"


def avatar_url(user: User) -> str:
    """Return the `avatar` claim: a URL below BASE_URL that changes with the picture. Specification 2.4."""
    # `reverse` would take longer than the computation of all four claims of user info.
    return f"{settings.BASE_URL}/avatars/{user.pk}/{current_version(user)}.png"


def current_version(user: User) -> str:
    shown = f"{user.pk}|{user.avatar}|{'' if user.avatar else user.nickname}"
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


@require_safe
def avatar(request: HttpRequest, sub: uuid.UUID, version: str) -> HttpResponse:
    """Serve the current picture for any `version`. Raises Http404 if there is no active person. Specification 2.4."""
    person = User.objects.only("avatar", "nickname").filter(pk=sub, is_active=True).first()
    if person is None:
        raise Http404
    picture = png(person)
    age = AVATAR_AGE_SECONDS if version == current_version(person) else OLD_AVATAR_AGE_SECONDS
    response = HttpResponse(picture or drawn(person), content_type="image/png")
    # No cache keeps a drawing that replaces a missing upload.
    response["Cache-Control"] = f"public, max-age={age}" if picture else "no-store"
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


def png(user: User) -> bytes | None:
    """Return the uploaded picture. If nothing was uploaded, return a drawing. If the upload is lost, return None."""
    return StoredPicture.read(user.avatar) if user.avatar else drawn(user)


def drawn(user: User) -> bytes:
    return _draw(initials(user.nickname), background(user.pk))


@transaction.atomic
def set_picture(user: User, picture: bytes | None) -> None:
    name = f"avatars/{uuid.uuid4().hex}.png" if picture else ""
    # With the lock, each of simultaneous uploads deletes the picture that it replaces.
    before = User.objects.select_for_update().values_list("avatar", flat=True).get(pk=user.pk)
    if before != name:  # equal if there was no picture to remove
        if picture:
            StoredPicture.objects.create(name=name, content=picture)
        user.change_profile(avatar=name)
        StoredPicture.objects.filter(name=before).delete()


def initials(nickname: str) -> str:
    """Return the initials of the first and last word. Return "" if either word has no ASCII initial."""
    words = nickname.split()
    ends = words[:1] + words[1:][-1:]
    letters = [_first_letter(word) for word in ends]
    return "".join(letters) if all(letters) else ""


def background(sub: uuid.UUID) -> str:
    """Return the background colour of the person's drawing as #rrggbb. Its contrast with white is at least 4.5."""
    hue = hashlib.sha256(sub.bytes).digest()[0] / 256
    return f"#{bytes(round(value * 255) for value in colorsys.hls_to_rgb(hue, 0.3, 0.5)).hex()}"


def _first_letter(word: str) -> str:
    for character in unicodedata.normalize("NFKD", word):
        if character.isalnum():
            return character.upper() if character.isascii() else ""
    return ""


@functools.lru_cache(maxsize=512)
def _draw(text: str, colour: str) -> bytes:
    size = SIZE_PIXELS
    picture = Image.new("RGB", (size, size), colour)
    drawing = ImageDraw.Draw(picture)
    if text:
        font = ImageFont.load_default(size=size * (0.42 if len(text) == 2 else 0.5))
        drawing.text((size / 2, size / 2 + size * 0.14), text, fill=WHITE, font=font, anchor="ms")
    else:
        middle, unit = size / 2, size / 100  # a head and shoulders
        drawing.ellipse((middle - 17 * unit, 20 * unit, middle + 17 * unit, 54 * unit), fill=WHITE)
        drawing.ellipse((middle - 32 * unit, 62 * unit, middle + 32 * unit, 138 * unit), fill=WHITE)
    output = io.BytesIO()
    picture.save(output, "PNG", optimize=True)
    return output.getvalue()
