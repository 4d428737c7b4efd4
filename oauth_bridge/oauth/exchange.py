"""The token operation: authenticate the client, then redeem the code. Specification 4.3."""

from __future__ import annotations

import re
import time
from typing import Any, cast

from oauth2_provider.settings import oauth2_settings

from accounts.models import User
from config.infrastructure import events
from config.infrastructure.errors import RequestError, subject
from config.infrastructure.events import Event
from oauth_bridge.applications import mails
from oauth_bridge.credentials import client_secrets, code_redemption, tokens
from oauth_bridge.credentials.random_values import OPENID_MARK, new_credential
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth import throttling
from oauth_bridge.oauth.parameters import require
from oauth_bridge.openid import claims, id_token, signing_keys
from oauth_bridge.openid.request import Granted

VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")  # RFC 7636 §4.1


def exchange_code(form: dict[str, str], address: str) -> dict[str, str | int]:
    """Exchange the code in the form for an access token. Return the members of the JSON answer.

    Failed authentications, and failed redemptions of public clients, are limited for each network address (`address`).
    """
    require(form, "grant_type", "client_id")
    if form["grant_type"] != "authorization_code":
        raise RequestError(OAuthFault.GRANT_TYPE)
    require(form, "code")
    client = authenticated_client(form, address)
    # A public client proves nothing, because anybody can send its client_id.
    subject().client_id, subject().is_proven = client.client_id, not client.is_public
    throttling.before_exchange(client.pk, is_public=client.is_public)
    try:
        members = _redeem(form, client)
    except RequestError:
        if client.is_public:
            throttling.token_failure(address, client.client_id)
        raise
    if client.is_public:
        throttling.exchange_of_public(client.pk)
    return members


def authenticated_client(
    form: dict[str, str], address: str, public_field: str | None = "code_verifier"
) -> client_secrets.Client:
    """Authenticate the client. Failures are limited for each network address (`address`). Raises RequestError."""
    try:
        return client_secrets.authenticate(form, public_field)
    except RequestError as error:
        throttling.token_failure(address, form["client_id"])
        if error.fault is OAuthFault.CLIENT_SECRET_EXPIRED:
            facts: dict[str, Any] = {name: error.private[name] for name in ("secret_row", "expired_seconds")}
            events.write(Event.EXPIRED_SECRET_USED, client_id=form["client_id"], **facts)
        raise


def _redeem(form: dict[str, str], client: client_secrets.Client) -> dict[str, str | int]:
    if "code_verifier" in form and not VERIFIER.fullmatch(form["code_verifier"]):
        raise RequestError(OAuthFault.VERIFIER_MALFORMED)
    # The signer is read before the redemption, so that the code stays valid if no key can be read or made.
    signer = signing_keys.signer(client.id_token_alg) if form["code"].startswith(OPENID_MARK) else None
    token = new_credential()
    redemption = code_redemption.redeem(form, client.pk, token)
    if redemption is None:
        raise _refuse(form, client)
    events.write(Event.CODE_REDEEMED, client_id=client.client_id, person=redemption.person_id)
    return {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS,
        **_openid_members(client, redemption, token, signer),
    }


def _refuse(form: dict[str, str], client: client_secrets.Client) -> RequestError:
    """Return the error for a code that could not be redeemed.

    If the error is CODE_SPENT (a replay), revoke the code's access token, and mail the person and the owners.
    """
    error, code = code_redemption.explain(form, client.pk)
    if code:
        person, known = code.user_id, subject()
        known.person, known.attempt, known.is_proven = person, code.attempt, True
        error.about(code_of=code.application_id)
        if error.fault is OAuthFault.CODE_SPENT:
            tokens.revoke(bytes(code.token_digest or b""))
            client_id, age = client.client_id, cast(float, error.details["age"])
            events.write(Event.CODE_REPLAYED, client_id=client_id, person=person, code_row=code.pk, age_seconds=age)
            mails.code_replayed(person, client.pk)
    return error


def _openid_members(
    client: client_secrets.Client,
    redemption: code_redemption.Redemption,
    token: str,
    signer: signing_keys.Signer | None,
) -> dict[str, str]:
    """Return `id_token` and `scope` if the scope has `openid`, otherwise {}. OpenID Connect Core 1.0 §3.1.3.3."""
    if redemption.openid is None or signer is None:
        return {}
    granted = Granted.from_json(redemption.openid)
    names = granted.id_token
    signed = id_token.make(
        granted,
        client_id=client.client_id,
        signer=signer,
        person_id=redemption.person_id,
        access_token=token,
        now=int(time.time()),
        person_claims=claims.values(User.objects.get(pk=redemption.person_id), names, client.pk) if names else {},
    )
    return {"id_token": signed, "scope": redemption.scope}
