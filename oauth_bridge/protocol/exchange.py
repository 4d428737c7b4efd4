"""The token operation: authenticate the client, redeem the code, or explain why not. Specification 4.3; D9 to D14."""

from __future__ import annotations

import logging
import re

from oauth_bridge import notices, throttling
from oauth_bridge.credentials import new_credential
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.models import AccessToken
from oauth_bridge.storage import client_secrets, codes

logger = logging.getLogger("oauth_bridge")

VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def exchange(form: dict[str, str], address: str) -> tuple[str, AccessToken]:
    """The access token for the code of the form, and the token's row.

    Success takes two statements, and a third once a minute (`client_secrets.authenticate`). Failures are counted by
    `address`, the client's network address.
    Raises RequestError: a parameter is missing or wrong, the client is not authenticated, the code can't be redeemed,
    or a limit is reached.
    """
    for name in ("grant_type", "client_id"):
        _require(form, name)
    if form["grant_type"] != "authorization_code":
        raise RequestError(Fault.GRANT_TYPE)
    _require(form, "code")
    client = authenticate(form, address)
    with throttling.exchange(client.pk, client.client_id, address, is_public=client.is_public):
        if "code_verifier" in form and not VERIFIER.fullmatch(form["code_verifier"]):
            raise RequestError(Fault.VERIFIER_MALFORMED)
        token = new_credential()
        row = codes.redeem(form, client.pk, token)
        if row is None:
            error = codes.explain(form, client, address) or RequestError(Fault.CODE_RACED)
            if isinstance(error, codes.CodeReplayed):
                notices.code_replayed(error.person_id, client.pk)
            raise error
        return token, row


def _require(form: dict[str, str], name: str) -> None:
    if name not in form:
        raise RequestError(Fault.MISSING, name=name)


def authenticate(form: dict[str, str], address: str) -> client_secrets.Client:
    """The client that the form authenticates. A failure is counted.

    Raises RequestError: as `client_secrets.authenticate`, or the limit of failures is reached.
    """
    try:
        return client_secrets.authenticate(form)
    except RequestError as error:
        throttling.token_failure(address, form["client_id"])
        if isinstance(error, client_secrets.SecretExpired):
            logger.warning(
                "expired client secret used",
                extra={
                    "client_id": form["client_id"],
                    "secret_row": error.secret_id,
                    "expired_seconds": error.expired_seconds,
                    "address": address,
                },
            )
        raise
