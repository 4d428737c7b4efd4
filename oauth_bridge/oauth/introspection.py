"""Introspection: an application asks whether one of its own access tokens is valid. RFC 7662."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from oauth_bridge.credentials import tokens
from oauth_bridge.oauth import throttling
from oauth_bridge.oauth.exchange import authenticated_client
from oauth_bridge.oauth.parameters import require


def introspect(form: dict[str, str], address: str) -> dict[str, Any]:
    """The facts about the token if it is a valid token of the application; otherwise `{"active": False}`. §2.2.

    Raises RequestError: as `revocation.revoke`, or the client is public.
    """
    require(form, "client_id", "token")
    client = authenticated_client(form, address, public_field=None)
    throttling.token_state("introspect", client.pk)
    token = tokens.read_own(form["token"], client.pk)
    if token is None:
        return {"active": False}
    return {
        "active": True,
        "scope": token.scope,
        "client_id": client.client_id,
        "sub": str(token.user_id),
        "iss": settings.BASE_URL,
        "token_type": "Bearer",
        "iat": int(token.issued_at.timestamp()),
        "exp": int(token.expires_at.timestamp()),
    }
