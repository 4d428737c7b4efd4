"""Revocation (RFC 7009) and introspection (RFC 7662) of an access token by the application that owns it."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from oauth_bridge.credentials import tokens
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.oauth import throttling
from oauth_bridge.oauth.exchange import authenticated_client
from oauth_bridge.oauth.parameters import require


def revoke(form: dict[str, str], address: str) -> None:
    """Revoke the token in `form` if it is a token of the application. Any other token is no error. RFC 7009 §2.2."""
    require(form, "client_id", "token")
    client = authenticated_client(form, address, public_field="token")
    if not client.is_public:
        throttling.token_state("revoke", client.pk)
    is_known = tokens.revoke_own(digest_of(form["token"]), client.pk)
    if client.is_public and not is_known:  # the token is all that a public client authenticates with
        throttling.token_failure(address, client.client_id)


def introspect(form: dict[str, str], address: str) -> dict[str, Any]:
    """Return the facts about a valid token of the application, otherwise `{"active": False}`. RFC 7662 §2.2."""
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
