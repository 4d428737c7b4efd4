"""The parts of the OpenAPI document: error responses, headers, schemas. RFC 6749 §5; D19, D20."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from oauth2_provider.settings import oauth2_settings

from config.infrastructure import paths
from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.protocol import claims
from oauth_bridge.protocol.parameter_parsing import BODY_LIMIT_BYTES
from oauth_bridge.protocol.userinfo import PROFILE_SCOPE

Json = dict[str, Any]

# The values that `protocol.parameter_parsing` accepts: texts without control characters, except the tab.
PLAIN_TEXT = r"^[^\x00-\x08\x0A-\x1F\x7F]*$"

# Example values for the placeholders in the sentences of `errors`.
DETAILS = {
    "given": "application/json",
    "limit": BODY_LIMIT_BYTES,
    "age": "12.3",
    "sent": "https://app.example/callback/",
    "issued_for": "https://app.example/callback",
    "parts": "the scheme http and the slash at the end",
    "seconds": 42,
    "kind": "an ID token or another JWT",
    "method": "DELETE",
    "host": "localhost:8000",
    "hosts": "api.example.com, auth.example.com",
}
# Example values that differ by operation.
DETAILS_AT: dict[str, dict[str, object]] = {
    "authorize": {"name": "client_id", "allow": "GET, HEAD, POST"},
    "callback": {"name": "response_type"},
    "answerConsent": {"name": "pending", "allow": "GET, HEAD, POST"},
    "token": {"name": "code", "scheme": "the scheme Bearer", "allow": "POST"},
    "userinfo": {"scheme": "the scheme Basic", "allow": "GET, HEAD, POST"},
    "userinfoByPost": {"name": "access_token", "scheme": "the scheme Basic", "allow": "GET, HEAD, POST"},
    "revoke": {"name": "token", "scheme": "the scheme Bearer", "allow": "POST"},
    "introspect": {"name": "token", "scheme": "the scheme Bearer", "allow": "POST"},
    "logout": {"name": "client_id", "allow": "GET, HEAD, POST"},
    "logoutByPost": {"name": "state", "allow": "GET, HEAD, POST"},
    "configuration": {"allow": "GET, HEAD"},
    "metadata": {"allow": "GET, HEAD"},
    "keys": {"allow": "GET, HEAD"},
}
# Example values that differ by fault.
DETAILS_OF: dict[Fault, dict[str, object]] = {
    SiteFault.HEADER_TOO_LONG: {"name": "Accept", "limit": 2048},
    SiteFault.TOO_MANY_FIELDS: {"limit": settings.DATA_UPLOAD_MAX_NUMBER_FIELDS},
    SiteFault.NOT_FOUND: {"hint": "Compare it with the documentation at https://auth.example.com/docs."},
}
REFERENCE = "7K3M9QXT"

# Failures -------------------------------------------------------------------------------------------------------------


def failures(faults: tuple[Fault, ...], *, at: str, challenge: str = "", pages: bool = False) -> Json:
    """Return one response for each status of the operation `at`.

    Each response has one example for each error that has the status of the response.
    """
    by_status: dict[int, list[Fault]] = {}
    for fault in faults:
        by_status.setdefault(fault.status, []).append(fault)
    responses = {}
    for status, same_status in sorted(by_status.items()):
        errors = list(dict.fromkeys(fault.error for fault in same_status))
        response = json(
            f"{' or '.join(f'`{error}`' for error in errors)}. The examples are all that is said.",
            {"$ref": "#/components/schemas/Error", "properties": {"error": {"enum": errors}}},
            **_headers_of(status, at, challenge),
        )
        response["content"]["application/json"]["examples"] = {
            fault.name.lower(): {"value": _body(fault, at)} for fault in same_status
        }
        if pages:
            response["description"] += " A page when `Accept` names `text/html`."
            response["content"]["text/html"] = {}
        responses[str(status)] = response
    return responses


def _headers_of(status: int, at: str, challenge: str) -> Json:
    if status == 405:
        return {"Allow": const(str(DETAILS_AT[at]["allow"]))}
    if status in (429, 503):
        return {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}}
    if status in (401, 403) and challenge:
        return {"WWW-Authenticate": {"description": challenge, "schema": {"type": "string"}}}
    return {}


def example_sentences(fault: Fault, at: str) -> tuple[str, str]:
    """Return the problem and the fix of a fault, with example values for the operation `at`."""
    details = {**DETAILS, **DETAILS_AT[at], **DETAILS_OF.get(fault, {})}
    return fault.problem.format(**details), fault.fix.format(**details)


def _body(fault: Fault, at: str) -> dict[str, str]:
    sentences = " ".join(filter(None, example_sentences(fault, at)))
    return {"error": fault.error, "error_description": f"{sentences} Reference {REFERENCE}."}


def callback(faults: tuple[Fault, ...]) -> Json:
    """Return the redirect to the callback address, with a table of the errors that the redirect may contain."""
    rows = [f"| `{fault.error}` | {' '.join(example_sentences(fault, 'callback')).strip()} |" for fault in faults]
    return {
        "description": "To your `redirect_uri` with `code` and `state`, or with `error`, `error_description` and "
        "`state`; with `openid` both also have `iss`, the issuer (RFC 9207). Or to another page of the service.\n\n"
        + "\n".join(["| `error` | `error_description` |", "|---|---|", *rows]),
        "headers": _headers(Location={"required": True, "schema": {"type": "string"}}),
    }


def redirect(description: str) -> Json:
    return {"description": description, "headers": _headers(Location={"required": True, "schema": {"type": "string"}})}


# Parts ----------------------------------------------------------------------------------------------------------------


def query(name: str, description: str, schema: Json, *, required: bool = False) -> Json:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def form(properties: Json, *, required: list[str]) -> Json:
    """The service ignores other parameters."""
    schema = {"type": "object", "properties": properties, "required": required}
    return {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}


def json(description: str, schema: Json, example: Json | None = None, **headers: Json) -> Json:
    content = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {
        "description": description,
        "headers": _headers(**headers),
        "content": {"application/json": content},
    }


def page(description: str) -> Json:
    return {"description": description, "headers": _headers(), "content": {"text/html": {}}}


def _headers(**more: Json) -> Json:
    """Return the headers of all responses, and the headers of `more`. D20, D24."""
    reference = {
        "required": True,
        "description": "Names this answer in the log of the service: quote it to support.",
        "schema": {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{8}$"},
    }
    common = {"Cache-Control": const("no-store"), "X-Content-Type-Options": const("nosniff")}
    return {**common, "X-Reference": reference, **more}


def for_every_origin(operation: Json) -> Json:
    """Add the header that allows scripts of every origin to read the responses of the operation. D22.

    The header is not marked as required, because the web server's own errors lack it. An example is the error for a
    long request line.
    """
    for response in operation["responses"].values():
        response["headers"]["Access-Control-Allow-Origin"] = {"schema": {"type": "string", "const": "*"}}
    return operation


def const(value: str) -> Json:
    return {"required": True, "schema": {"type": "string", "const": value}}


def published(description: str) -> Json:
    """Return a response with a JSON document. Caches may store the response."""
    response = json(description, {"type": "object"})
    response["headers"] = {"X-Content-Type-Options": const("nosniff")}
    return response


def _object(*, optional: Json | None = None, **properties: Json) -> Json:
    members = {name: {"type": "string", **schema} for name, schema in {**properties, **(optional or {})}.items()}
    return {"type": "object", "properties": members, "required": list(properties)}


SCHEMAS = {
    "Token": _object(
        access_token={"minLength": 1, "description": "A bearer credential; what is in it is nobody's concern."},
        token_type={"const": "Bearer"},
        expires_in={"type": "integer", "const": oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS, "description": "Seconds."},
        optional={
            "id_token": {"description": "Only for a request with the scope `openid`. OpenID Connect Core 1.0 §2."},
            "scope": {"description": "With the ID token: the scopes that were granted."},
        },
    ),
    "Profile": _object(
        sub={"format": "uuid", "description": "The person: never reused, the same for every application."},
        nickname={"description": "As the person wants to be called; never the e-mail address."},
        email={"format": "email", "description": "A confirmed address. It may change: link accounts by `sub`."},
        avatar={"format": "uri", "description": "A picture, uploaded or drawn from the initials."},
    ),
    "Claims": _object(
        sub={"format": "uuid"},
        optional={
            **{name: {} for name in claims.NAMES if name != "sub"},
            "email_verified": {"type": "boolean", "const": True},
            "updated_at": {"type": "integer", "description": "Unix time in seconds."},
            "groups": {"type": "array", "items": {"type": "string"}},
        },
    ),
    "Error": _object(
        error={"description": "The kind of failure, for programs."},
        error_description={
            # RFC 6749 §5.2
            "pattern": r"^[\x20-\x21\x23-\x5B\x5D-\x7E]+$",
            "description": "What is wrong and what to do, for people.",
        },
    ),
}


def token_example() -> Json:
    return {
        "access_token": "gD0hyHzXWAlYQk5q8cGYcVJ1m0s2TtBNf7ZpLrE3uKo",
        "token_type": "Bearer",
        "expires_in": oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS,
    }


def profile_example() -> Json:
    return {
        "sub": "6fa459ea-ee8a-4ca4-894e-db77e160355e",
        "nickname": "Ada",
        "email": "ada@example.org",
        "avatar": f"{settings.BASE_URL}/avatars/6fa459ea-ee8a-4ca4-894e-db77e160355e/1.png",
    }


def security_schemes() -> Json:
    sign_in = {
        "authorizationUrl": f"{settings.AUTH_URL}{paths.AUTHORIZE}",
        "tokenUrl": f"{settings.BASE_URL}{paths.TOKEN}",
        "scopes": {
            PROFILE_SCOPE: "The four members of the profile. It need not be asked for.",
            claims.OPENID: "OpenID Connect: an ID token, and the claims of the scopes profile, email and groups.",
        },
    }
    return {
        "clientSecretBasic": {
            "type": "http",
            "scheme": "basic",
            "description": "`client_id` and `client_secret`, each form-urlencoded first (RFC 6749 §2.3.1).",
        },
        "bearer": {"type": "http", "scheme": "bearer", "description": "The access token, in this header only."},
        "signIn": {"type": "oauth2", "flows": {"authorizationCode": sign_in}},
    }
