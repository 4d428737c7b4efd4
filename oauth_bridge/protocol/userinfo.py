"""User info: verify the access token and return the claims. Specification 2.4, 4.4; D16, D17, D18; RFC 6750."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from config.infrastructure.errors import RequestError, subject
from oauth_bridge import throttling
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol import bearer_token, claims
from oauth_bridge.protocol.openid_request import Granted
from oauth_bridge.storage import tokens

PROFILE_SCOPE = "profile"


def verify(request: HttpRequest, scopes: Sequence[str]) -> tokens.Bearer:
    """Verify the access token and return its bearer. A token without `openid` must have all of `scopes`.

    Raises RequestError: the request has no valid token, the token lacks a scope, or a limit is reached.
    """
    try:
        bearer = tokens.read(bearer_token.of_request(request))
    except RequestError:
        throttling.userinfo_failure(request)
        raise
    known = subject()
    known.client_id, known.person, known.attempt, known.is_proven = (
        bearer.client_id,
        bearer.user.pk,
        bearer.attempt,
        True,
    )
    throttling.userinfo(bearer.application_id, bearer.user.pk, is_public=bearer.is_public)
    if bearer.openid is None and not set(scopes) <= set(bearer.scopes):
        raise RequestError(OAuthFault.TOKEN_SCOPE)
    return bearer


def scopes_of(requested: str) -> list[str]:
    """The scopes of a token: the granted scopes if `openid` is requested, and otherwise only `profile` (D18)."""
    return claims.granted_scopes(requested) if claims.is_openid(requested) else [PROFILE_SCOPE]


def profile_of(bearer: tokens.Bearer) -> dict[str, Any]:
    """The claims about the person of the access token. Raises RequestError: as `claims.values`."""
    names = claims.PLAIN if bearer.openid is None else Granted.from_json(bearer.openid).userinfo
    return claims.values(bearer.user, names, bearer.application_id)
