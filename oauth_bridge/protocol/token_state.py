"""Revocation and introspection of access tokens, for the applications that hold them. RFC 7009; RFC 7662.

An application learns nothing of another's tokens: to it they are unknown ones.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from oauth_bridge import throttling
from oauth_bridge.protocol.parameter_parsing import require
from oauth_bridge.protocol.token_exchange import authenticated_client
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import tokens


def revoke(form: dict[str, str], address: str) -> None:
    """End the application's token of the form. An unknown one is as good as revoked (RFC 7009 §2.2).

    A public client proves itself by the token, so unknown ones count against the network `address`.
    Raises RequestError: a parameter is missing, the client is not authenticated, or a limit is reached.
    """
    require(form, "client_id", "token")
    client = authenticated_client(form, address, public_field="token")
    if not client.is_public:
        throttling.token_state("revoke", client.pk)
    is_known = tokens.revoke_own(digest_of(form["token"]), client.pk)
    if client.is_public and not is_known:
        throttling.token_failure(address, client.client_id)


def introspect(form: dict[str, str], address: str) -> dict[str, Any]:
    """What is known of a valid token of the application; `{"active": False}` for every other text. RFC 7662 §2.2.

    Raises RequestError: as `revoke`; public clients are not authenticated.
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
