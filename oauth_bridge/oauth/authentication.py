"""Read a client's credentials from the form or the `Authorization` header. Specification 5; RFC 6749 §2.3.1, §5.2."""

from __future__ import annotations

import base64
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
    return str(request.META.get("HTTP_AUTHORIZATION", "")).strip()


def scheme_of(header: str) -> str:
    found = SCHEME.match(header)
    return f"the scheme {found[1]}" if found else "no scheme"


def is_basic(header: str) -> bool:
    return header.partition(" ")[0].lower() == "basic"


def of_request(request: HttpRequest, form: dict[str, str]) -> dict[str, str]:
    """Return `form`, completed with the client_id and client_secret of an HTTP Basic header if there is one.

    The database is not read, so an error does not reveal whether a client exists.
    """
    header = header_of(request)
    if not is_basic(header):
        if header and not form.keys() & {"client_secret", "code_verifier"}:
            raise RequestError(OAuthFault.CLIENT_SCHEME, scheme=scheme_of(header))
        return form
    client_id, secret = _basic(header)
    if form.get("client_id", client_id) != client_id:
        raise RequestError(OAuthFault.CLIENT_DIFFERS)
    if form.get("client_secret", secret) != secret:
        raise RequestError(OAuthFault.TWO_AUTHENTICATIONS)
    # As in a form, an empty secret counts as none: a public client has no other (RFC 6749 §2.3.1).
    return {**form, "client_id": client_id, **({"client_secret": secret} if secret else {})}


def named_client(request: HttpRequest, sent: Parameters) -> str:
    """Return the client_id in a refused request, or "". It is not authenticated, so use it only in the activity log."""
    header, named = header_of(request), sent.text("client_id")
    if not named and is_basic(header):
        with suppress(ValueError):
            named = unquote_plus(_decoded(header, is_strict=False)[0])
    named = named or client_id_of_json(request)
    return named if named.isprintable() else ""


def _decoded(header: str, *, is_strict: bool = True) -> list[str]:
    return base64.b64decode(header.partition(" ")[2].strip(), validate=is_strict).decode().split(":", 1)


def _basic(header: str) -> tuple[str, str]:
    """Return the client_id and the client_secret of a Basic header. Decode their form encoding. RFC 6749 §2.3.1."""
    try:
        client_id, secret = (unquote_plus(part, errors="strict") for part in _decoded(header))
    except ValueError:
        client_id = secret = ""
    refuse_padding("client_id", client_id)
    refuse_padding("client_secret", secret)
    if not client_id or not (client_id + secret).isprintable():
        raise RequestError(OAuthFault.BASIC_MALFORMED)
    return client_id, secret


def add_basic(request: HttpRequest, error: RequestError) -> None:
    """Add `WWW-Authenticate: Basic` if the client failed to authenticate by an `Authorization` header. RFC 6749 §5.2.

    Libraries such as oauth4webapi do not read the body of a response with this header, so the header repeats the error.
    """
    tried = is_basic(header_of(request))
    if error.fault is OAuthFault.CLIENT_SCHEME or (tried and error.fault.error == "invalid_client"):
        error.headers["WWW-Authenticate"] = f'Basic realm="token", charset="UTF-8", {told(error)}'


def told(error: RequestError) -> str:
    """Return `error` and `error_description` as parameters of a `WWW-Authenticate` header. RFC 6750 §3."""
    return f'error="{error.fault.error}", error_description="{error.description}"'
