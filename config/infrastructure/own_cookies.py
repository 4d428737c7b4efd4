"""Cookies that scripts cannot read. A request from another site contains these cookies only if it follows a link.

config.settings names the cookies with `name_of`.
"""

from __future__ import annotations

from django.conf import settings
from django.http.response import HttpResponseBase


def name_of(purpose: str, *, is_https: bool) -> str:
    """Return the cookie's name. With https, the name binds the cookie to this host and to https (RFC 6265bis §4.1.3.2).

    `purpose` consists of letters and hyphens. O.cookies.
    """
    return f"__Host-{purpose}" if is_https else f"delegated_{purpose.replace('-', '_')}"


def set_cookie(response: HttpResponseBase, name: str, value: str, max_age: int | None = None) -> None:
    """Set a cookie for `max_age` seconds or, without `max_age`, until the browser's session ends. O.cookies."""
    response.set_cookie(name, value, max_age=max_age, secure=settings.IS_HTTPS, httponly=True, samesite="Lax")
