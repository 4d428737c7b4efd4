"""User info: verify the access token and return the claims. Specification 2.4, 4.4; RFC 6750."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from config.infrastructure.errors import RequestError, subject
from oauth_bridge.credentials import tokens
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth import authentication, parameters, throttling
from oauth_bridge.openid import claims
from oauth_bridge.openid.request import Granted

PROFILE_SCOPE = "profile"
B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
JWT = re.compile(r"eyJ[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*){2,4}")


def token_of(request: HttpRequest) -> str:
    """Return the token in the `Authorization` header or in a form, after a check of its format. RFC 6750 §2.1, §2.2."""
    header = authentication.header_of(request)
    scheme, _, value = header.partition(" ")
    form = parameters.read_form(request).texts() if parameters.has_body(request) else {}
    if "access_token" in form:
        if header:
            raise RequestError(OAuthFault.TWO_TOKENS)
        scheme, value = "bearer", form["access_token"]
    elif not header:
        is_in_url = bool(parameters.of_query(request).text("access_token"))
        raise RequestError(OAuthFault.TOKEN_IN_URL if is_in_url else OAuthFault.TOKEN_MISSING)
    if scheme.lower() != "bearer":
        raise RequestError(OAuthFault.TOKEN_SCHEME, scheme=authentication.scheme_of(header))
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise RequestError(OAuthFault.TOKEN_MALFORMED)
    if JWT.fullmatch(token):
        raise RequestError(OAuthFault.TOKEN_OF_ANOTHER_KIND)
    return token


def verify(request: HttpRequest, scopes: Sequence[str]) -> tokens.Bearer:
    """Verify the access token, and return the facts about it. A token issued without OpenID must have all `scopes`."""
    try:
        bearer = tokens.read(token_of(request))
    except RequestError:
        throttling.userinfo_failure(request)
        raise
    known = subject()
    known.client_id, known.person = bearer.client_id, bearer.user.pk
    known.attempt, known.is_proven = bearer.attempt, True
    throttling.userinfo(bearer.application_id, bearer.user.pk, is_public=bearer.is_public)
    if bearer.openid is None and not set(scopes) <= set(bearer.scope.split()):
        raise RequestError(OAuthFault.TOKEN_SCOPE)
    return bearer


def profile_of(bearer: tokens.Bearer) -> dict[str, Any]:
    """Return the claims about the person. Raises RequestError: the person's e-mail address is not confirmed."""
    names = claims.PLAIN if bearer.openid is None else Granted.from_json(bearer.openid).userinfo
    return claims.values(bearer.user, names, bearer.application_id)


def add_bearer(_request: HttpRequest, error: RequestError) -> None:
    """Add `WWW-Authenticate: Bearer` to a 401 or 403, with the error if a bearer token was sent. RFC 6750 §3.1."""
    if error.fault in (OAuthFault.TOKEN_MISSING, OAuthFault.TOKEN_IN_URL, OAuthFault.TOKEN_SCHEME):
        error.headers["WWW-Authenticate"] = 'Bearer realm="userinfo"'
    elif error.fault.status in (401, 403):
        error.headers["WWW-Authenticate"] = f"Bearer {authentication.told(error)}"
