"""Serve the pictures of people to applications and pages. Specification 2.4; D16."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from accounts.models import User
from accounts.pictures import current_picture

AVATAR_AGE_SECONDS = 30 * 24 * 3600
OLD_AVATAR_AGE_SECONDS = 60


@require_safe
def avatar(request: HttpRequest, sub: uuid.UUID, version: str) -> HttpResponseBase:
    """Serve the picture of the `avatar` claim. The response is public and cacheable. Specification 2.4; D16.

    The URL of an old version returns the current picture, which is cached only briefly. If the picture is missing, the
    response is a drawing of the initials, which is not cached. The view reads no session and sets no cookie.
    """
    person = User.objects.only("avatar", "nickname").filter(pk=sub, is_active=True).first()
    if person is None:
        raise Http404
    current = current_picture.version(person)
    etag = f'"{current}"'
    age = AVATAR_AGE_SECONDS if version == current else OLD_AVATAR_AGE_SECONDS
    caching = {"ETag": etag, "Cache-Control": f"public, max-age={age}"}
    # If the client's ETag matches, the client has the picture, and none is read.
    response = get_conditional_response(request, etag=etag)
    if response is None:
        picture = current_picture.png(person)
        if picture is None:
            picture, caching = current_picture.drawn(person), {"Cache-Control": "no-store"}
        response = HttpResponse(picture, content_type="image/png")
    always = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin"}
    for name, value in {**caching, **always}.items():
        response[name] = value
    return response
