"""The access token of a user-info request. Specification 5; D17; RFC 6750 §2, §3."""

from __future__ import annotations

import re

from django.http import HttpRequest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol import authorization_header, parameter_parsing

B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def of_request(request: HttpRequest) -> str:
    """Return the access token from the `Authorization` header or from a form body (RFC 6750 §2.2).

    A token in the URL is not accepted (D17).

    Raises RequestError: the request has no token or two tokens, the header has another scheme, or the token is
    malformed.
    """
    header = authorization_header.read(request)
    scheme, _, value = header.partition(" ")
    form = parameter_parsing.of_form(request) if parameter_parsing.has_body(request) else {}
    if "access_token" in form:
        if header:
            raise RequestError(OAuthFault.TWO_TOKENS)
        scheme, value = "bearer", form["access_token"]
    elif not header:
        raise RequestError(OAuthFault.TOKEN_MISSING)
    if scheme.lower() != "bearer":
        raise RequestError(OAuthFault.TOKEN_SCHEME, scheme=authorization_header.scheme_of(header))
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise RequestError(OAuthFault.TOKEN_MALFORMED)
    return token
