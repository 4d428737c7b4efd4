"""Read the credentials of a client from the form or the `Authorization` header. Specification 5; RFC 6749 §2.3.1, §5.2.

`credentials.client_secrets.authenticate` compares the secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from urllib.parse import unquote_plus

from django.http import HttpRequest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.parameters import Parameters, client_id_of_json, refuse_padding

# An error sentence quotes the scheme of the header only if this pattern matches. Otherwise, the first word may be a
# credential.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,15}) +[^ ]")


def header_of(request: HttpRequest) -> str:
    """Return the header `Authorization` without surrounding spaces, or an empty string."""
    return str(request.META.get("HTTP_AUTHORIZATION", "")).strip()


def scheme_of(header: str) -> str:
    """Name the scheme of the header for an error sentence, without the credential that follows the scheme."""
    found = SCHEME.match(header)
    return f"the scheme {found[1]}" if found else "no scheme"


def is_basic(header: str) -> bool:
    return header.partition(" ")[0].lower() == "basic"


def of_request(request: HttpRequest, form: dict[str, str]) -> dict[str, str]:
    """Return the form. If the header is HTTP Basic, add its `client_id` and `client_secret` to the form.

    No SQL statement runs, so an error depends only on the request and reveals nothing about the clients. Raises
    RequestError: the header is malformed; the header and the form differ; or the header has another scheme, and the
    form does not authenticate a client.
    """
    header = header_of(request)
    if not is_basic(header):
        if header and not form.keys() & {"client_secret", "code_verifier"}:
            raise RequestError(OAuthFault.CLIENT_SCHEME, scheme=scheme_of(header))
        return form
    client_id, secret = _basic(header.partition(" ")[2])
    if form.get("client_id", client_id) != client_id:
        raise RequestError(OAuthFault.CLIENT_DIFFERS)
    if form.get("client_secret", secret) != secret:
        raise RequestError(OAuthFault.TWO_AUTHENTICATIONS)
    # As in a form, an empty secret counts as none: a public client has no other (RFC 6749 §2.3.1).
    return {**form, "client_id": client_id, **({"client_secret": secret} if secret else {})}


def named_client(request: HttpRequest, sent: Parameters) -> str:
    """Return the client_id that a refused request names in the form, in HTTP Basic or in JSON; empty if it names none.

    Only the activity log uses this client_id, because the client is not authenticated.
    """
    header, named = header_of(request), sent.text("client_id")
    if not named and is_basic(header):
        with suppress(ValueError):
            decoded = base64.b64decode(header.partition(" ")[2].strip()).decode()
            named = unquote_plus(decoded.partition(":")[0])
    named = named or client_id_of_json(request)
    return named if named.isprintable() else ""


def _basic(encoded: str) -> tuple[str, str]:
    """Decode Base64 into client_id and client_secret, each form-urlencoded (RFC 6749 §2.3.1). Raises RequestError."""
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, secret = (unquote_plus(part, errors="strict") for part in decoded.split(":", 1))
    except (binascii.Error, ValueError):
        client_id = secret = ""
    refuse_padding("client_id", client_id)
    refuse_padding("client_secret", secret)
    if not client_id or not (client_id + secret).isprintable():
        raise RequestError(OAuthFault.BASIC_MALFORMED)
    return client_id, secret


def add_basic(request: HttpRequest, error: RequestError) -> None:
    """Add `WWW-Authenticate: Basic` to the error if the client tried to authenticate in a header. RFC 6749 §5.2.

    The header repeats the error, because some libraries, such as oauth4webapi, read no body beside this header.
    """
    tried = is_basic(header_of(request))
    if error.fault is OAuthFault.CLIENT_SCHEME or (tried and error.fault.error == "invalid_client"):
        error.headers["WWW-Authenticate"] = f'Basic realm="token", charset="UTF-8", {told(error)}'


def told(error: RequestError) -> str:
    """Return the parameters of a `WWW-Authenticate` header that repeat the error. RFC 6750 §3."""
    return f'error="{error.fault.error}", error_description="{error.description}"'
