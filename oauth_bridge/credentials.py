"""How a client and a token are presented in HTTP. Specification 5; D12, D17; RFC 6749 §2.3.1; RFC 6750 §2.1, §3."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_plus

from django.http import HttpRequest

from oauth_bridge.faults import Fault, Refused
from oauth_bridge.parameters import refuse_padding

# A longer or other first word may be a credential, which is never repeated.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,15}) +[^ ]")
B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
BASIC_CHALLENGE = 'Basic realm="token", charset="UTF-8"'


def authenticating(request: HttpRequest, form: dict[str, str]) -> tuple[dict[str, str], str]:
    """The form with the client's credentials in it, wherever they came from, and the challenge a failure is given.

    Nothing is looked up, so what is refused here depends on the request alone and tells no stranger anything.
    Raises Refused: the header can't be read, has another scheme while the form proves no client, or differs from the
    form.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "").strip()
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        if header and not form.keys() & {"client_secret", "code_verifier"}:
            raise Refused(Fault.CLIENT_SCHEME, {"WWW-Authenticate": BASIC_CHALLENGE}, scheme=_scheme_of(header))
        return form, ""
    client_id, secret = _basic(value)
    if form.get("client_id", client_id) != client_id:
        raise Refused(Fault.CLIENT_DIFFERS)
    if form.get("client_secret", secret) != secret:
        raise Refused(Fault.TWO_AUTHENTICATIONS)
    return {**form, "client_id": client_id, "client_secret": secret}, BASIC_CHALLENGE


def _basic(encoded: str) -> tuple[str, str]:
    """`client_id` and `client_secret`, each form-urlencoded in the pair (RFC 6749 §2.3.1)."""
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, secret = (unquote_plus(part, errors="strict") for part in decoded.split(":", 1))
    except (binascii.Error, ValueError):
        client_id = secret = ""
    refuse_padding("client_id", client_id)
    refuse_padding("client_secret", secret)
    if not client_id or not (client_id + secret).isprintable():
        raise Refused(Fault.BASIC_MALFORMED, {"WWW-Authenticate": BASIC_CHALLENGE})
    if not secret:
        raise Refused(Fault.CLIENT_SECRET_MISSING, {"WWW-Authenticate": BASIC_CHALLENGE})
    return client_id, secret


def _scheme_of(header: str) -> str:
    """The scheme as half a sentence; the rest of the header is a credential."""
    found = SCHEME.match(header)
    return f"the scheme {found[1]}" if found else "no scheme"


def bearer_token(request: HttpRequest) -> str:
    """The token of the `Authorization` header; nothing else is looked at (D17).

    Raises Refused: there is none, or it can't be one.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "").strip()
    scheme, _, value = header.partition(" ")
    if not header:
        raise Refused(Fault.TOKEN_MISSING)
    if scheme.lower() != "bearer":
        raise Refused(Fault.TOKEN_SCHEME, scheme=_scheme_of(header))
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise Refused(Fault.TOKEN_MALFORMED)
    return token


def challenged(refused: Refused) -> Refused:
    """The refusal with the challenge of RFC 6750 §3; one that sent no bearer token learns no error there (§3.1)."""
    if refused.fault in (Fault.TOKEN_MISSING, Fault.TOKEN_SCHEME):
        refused.headers["WWW-Authenticate"] = 'Bearer realm="userinfo"'
    elif refused.fault.status in (401, 403):
        description = refused.description
        refused.headers["WWW-Authenticate"] = f'Bearer error="{refused.fault.error}", error_description="{description}"'
    return refused
