"""The header `WWW-Authenticate` of errors, which names the way to authenticate. RFC 6749 §5.2; RFC 6750 §3."""

from __future__ import annotations

from django.http import HttpRequest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol import authorization_header


def add_basic(request: HttpRequest, error: RequestError) -> None:
    """Add the header to the error if the client tried to authenticate in `Authorization`. RFC 6749 §5.2."""
    is_basic = authorization_header.is_basic(authorization_header.read(request))
    if error.fault is OAuthFault.CLIENT_SCHEME or (is_basic and error.fault.error == "invalid_client"):
        error.headers["WWW-Authenticate"] = 'Basic realm="token", charset="UTF-8"'


def add_bearer(_request: HttpRequest, error: RequestError) -> None:
    """Add the header to the error. If the request has no bearer token, the header names no error (RFC 6750 §3.1)."""
    if error.fault in (OAuthFault.TOKEN_MISSING, OAuthFault.TOKEN_IN_URL, OAuthFault.TOKEN_SCHEME):
        error.headers["WWW-Authenticate"] = 'Bearer realm="userinfo"'
    elif error.fault.status in (401, 403):
        error.headers["WWW-Authenticate"] = (
            f'Bearer error="{error.fault.error}", error_description="{error.description}"'
        )
