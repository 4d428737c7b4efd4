"""The `Authorization` header of the token and user-info operations.

Specification 5; D12, D17; RFC 6749 §2.3.1; RFC 6750 §2.1, §3.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_plus

from django.http import HttpRequest

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol import parameter_parsing
from oauth_bridge.protocol.parameter_parsing import refuse_padding

# An error sentence quotes the scheme of the header only if this pattern matches. Otherwise, the first word may be a
# credential.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,15}) +[^ ]")
B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def client_credentials(request: HttpRequest, form: dict[str, str]) -> dict[str, str]:
    """Return the form. If the header is HTTP Basic, add its `client_id` and `client_secret` to the form.

    No SQL statement runs, so an error depends only on the request and reveals nothing about the clients. Raises
    RequestError: the header is malformed; the header and the form differ; or the header has another scheme, and the
    form does not authenticate a client.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "").strip()
    if not _is_basic(header):
        if header and not form.keys() & {"client_secret", "code_verifier"}:
            raise RequestError(OAuthFault.CLIENT_SCHEME, scheme=_scheme_of(header))
        return form
    client_id, secret = _basic(header.partition(" ")[2])
    if form.get("client_id", client_id) != client_id:
        raise RequestError(OAuthFault.CLIENT_DIFFERS)
    if form.get("client_secret", secret) != secret:
        raise RequestError(OAuthFault.TWO_AUTHENTICATIONS)
    return {**form, "client_id": client_id, "client_secret": secret}


def challenge_client(request: HttpRequest, error: RequestError) -> None:
    """Add `WWW-Authenticate` to the error if the client tried to authenticate in the header. RFC 6749 §5.2."""
    is_basic = _is_basic(request.META.get("HTTP_AUTHORIZATION", "").strip())
    if error.fault is OAuthFault.CLIENT_SCHEME or (is_basic and error.fault.error == "invalid_client"):
        error.headers["WWW-Authenticate"] = 'Basic realm="token", charset="UTF-8"'


def _is_basic(header: str) -> bool:
    return header.partition(" ")[0].lower() == "basic"


def _basic(encoded: str) -> tuple[str, str]:
    """Decode the pair `client_id` and `client_secret`. Each of the two is form-urlencoded (RFC 6749 §2.3.1)."""
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, secret = (unquote_plus(part, errors="strict") for part in decoded.split(":", 1))
    except (binascii.Error, ValueError):
        client_id = secret = ""
    refuse_padding("client_id", client_id)
    refuse_padding("client_secret", secret)
    if not client_id or not (client_id + secret).isprintable():
        raise RequestError(OAuthFault.BASIC_MALFORMED)
    if not secret:
        raise RequestError(OAuthFault.CLIENT_SECRET_MISSING)
    return client_id, secret


def _scheme_of(header: str) -> str:
    """Name the scheme of the header for an error sentence, without the credential that follows the scheme."""
    found = SCHEME.match(header)
    return f"the scheme {found[1]}" if found else "no scheme"


def bearer_token(request: HttpRequest) -> str:
    """Return the access token from the `Authorization` header or from a form body (RFC 6750 §2.2).

    A token in the URL is not accepted (D17).

    Raises RequestError: the request has no token or two tokens, the header has another scheme, or the token is
    malformed.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "").strip()
    scheme, _, value = header.partition(" ")
    form = parameter_parsing.of_form(request) if parameter_parsing.has_body(request) else {}
    if "access_token" in form:
        if header:
            raise RequestError(OAuthFault.TWO_TOKENS)
        scheme, value = "bearer", form["access_token"]
    elif not header:
        raise RequestError(OAuthFault.TOKEN_MISSING)
    if scheme.lower() != "bearer":
        raise RequestError(OAuthFault.TOKEN_SCHEME, scheme=_scheme_of(header))
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise RequestError(OAuthFault.TOKEN_MALFORMED)
    return token


def challenge_bearer(error: RequestError) -> None:
    """Add `WWW-Authenticate` (RFC 6750 §3). If the request has no bearer token, the challenge names no error (§3.1)."""
    if error.fault in (OAuthFault.TOKEN_MISSING, OAuthFault.TOKEN_SCHEME):
        error.headers["WWW-Authenticate"] = 'Bearer realm="userinfo"'
    elif error.fault.status in (401, 403):
        error.headers["WWW-Authenticate"] = (
            f'Bearer error="{error.fault.error}", error_description="{error.description}"'
        )
