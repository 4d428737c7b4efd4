"""Cookies that scripts cannot read. A request from another site contains these cookies only if it follows a link."""

from __future__ import annotations

from django.conf import settings
from django.http.response import HttpResponseBase


def set_cookie(response: HttpResponseBase, name: str, value: str, max_age: int | None = None) -> None:
    """Set a cookie for `max_age` seconds or, without `max_age`, until the browser's session ends. O.cookies."""
    response.set_cookie(name, value, max_age=max_age, secure=settings.IS_HTTPS, httponly=True, samesite="Lax")
