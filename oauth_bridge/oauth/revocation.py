"""Revocation: an application ends one of its own access tokens. RFC 7009."""

from __future__ import annotations

from oauth_bridge.credentials import tokens
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.oauth import throttling
from oauth_bridge.oauth.exchange import authenticated_client
from oauth_bridge.oauth.parameters import require


def revoke(form: dict[str, str], address: str) -> None:
    """Revoke the token in the form if the token is the application's. An unknown token is no error (RFC 7009 §2.2).

    A public client authenticates only with the token, so an unknown token counts as a failed authentication from
    `address`. Raises RequestError: a parameter is missing, the client is not authenticated, or a limit is reached.
    """
    require(form, "client_id", "token")
    client = authenticated_client(form, address, public_field="token")
    if not client.is_public:
        throttling.token_state("revoke", client.pk)
    is_known = tokens.revoke_own(digest_of(form["token"]), client.pk)
    if client.is_public and not is_known:
        throttling.token_failure(address, client.client_id)
