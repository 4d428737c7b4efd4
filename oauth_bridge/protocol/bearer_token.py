"""The access token of a user-info request. Specification 5; D17; RFC 6750 §2, §3."""

from __future__ import annotations

import re

from django.http import HttpRequest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import CLIENT_ID_LENGTH
from oauth_bridge.protocol import authorization_header, parameter_parsing
from oauth_bridge.random_values import OPENID_MARK

B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
# What people send in place of an access token, which never has one of these shapes.
OTHER_KINDS = {
    "an ID token or another JWT": re.compile(r"eyJ[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*){2,4}"),
    "an authorization code": re.compile(rf"{OPENID_MARK}[A-Za-z0-9_-]+"),
    "a client_id": re.compile(rf"[0-9a-f]{{{CLIENT_ID_LENGTH}}}"),
}


def of_request(request: HttpRequest) -> str:
    """Return the access token from the `Authorization` header or from a form body (RFC 6750 §2.2).

    A token in the URL is not accepted (D17).

    Raises RequestError: the request has no token or two tokens, the header has another scheme, or the token is
    malformed or has the shape of another credential.
    """
    header = authorization_header.read(request)
    scheme, _, value = header.partition(" ")
    form = parameter_parsing.of_form(request) if parameter_parsing.has_body(request) else {}
    if "access_token" in form:
        if header:
            raise RequestError(OAuthFault.TWO_TOKENS)
        scheme, value = "bearer", form["access_token"]
    elif not header:
        is_in_url = bool(parameter_parsing.of_query(request).text("access_token"))
        raise RequestError(OAuthFault.TOKEN_IN_URL if is_in_url else OAuthFault.TOKEN_MISSING)
    if scheme.lower() != "bearer":
        raise RequestError(OAuthFault.TOKEN_SCHEME, scheme=authorization_header.scheme_of(header))
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise RequestError(OAuthFault.TOKEN_MALFORMED)
    for kind, shape in OTHER_KINDS.items():
        if shape.fullmatch(token):
            raise RequestError(OAuthFault.TOKEN_OF_ANOTHER_KIND, kind=kind)
    return token
