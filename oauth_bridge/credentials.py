"""How a client and a token are presented in HTTP. Specification 5; D12, D17; RFC 6749 §2.3.1; RFC 6750 §2.1, §3."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_plus

from django.http import HttpRequest

from oauth_bridge.faults import Fault, Refused

B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
BASIC_CHALLENGE = 'Basic realm="token", charset="UTF-8"'


def authenticating(request: HttpRequest, form: dict[str, str]) -> tuple[dict[str, str], str]:
    """The form with the client's credentials in it, wherever they came from, and the challenge a failure is given.

    Raises Refused: the client authenticates in two ways, or the header can't be read.
    """
    scheme, _, value = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return form, ""
    if "client_secret" in form:
        raise Refused(Fault.TWO_AUTHENTICATIONS)
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode()
        client_id, secret = (unquote_plus(part, errors="strict") for part in decoded.split(":", 1))
    except (binascii.Error, ValueError):
        client_id = secret = ""
    if not client_id or not secret or not (client_id + secret).isprintable():
        raise Refused(Fault.CLIENT_NOT_AUTHENTICATED, {"WWW-Authenticate": BASIC_CHALLENGE})
    if form.get("client_id", client_id) != client_id:
        raise Refused(Fault.CLIENT_DIFFERS)
    return {**form, "client_id": client_id, "client_secret": secret}, BASIC_CHALLENGE


def bearer_token(request: HttpRequest) -> str:
    """The token of the `Authorization` header; nothing else is looked at (D17).

    Raises Refused: there is none, or it can't be one.
    """
    scheme, _, value = request.META.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Refused(Fault.TOKEN_MISSING)
    token: str = value.strip()
    if not B64TOKEN.fullmatch(token):
        raise Refused(Fault.TOKEN_MALFORMED)
    return token


def challenged(refused: Refused) -> Refused:
    """The refusal with the challenge of RFC 6750 §3; one that sent no token learns no error there (§3.1)."""
    if refused.fault is Fault.TOKEN_MISSING:
        refused.headers["WWW-Authenticate"] = 'Bearer realm="userinfo"'
    elif refused.fault.status in (401, 403):
        description = refused.description
        refused.headers["WWW-Authenticate"] = f'Bearer error="{refused.fault.error}", error_description="{description}"'
    return refused
