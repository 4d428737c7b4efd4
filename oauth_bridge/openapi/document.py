"""Describe the operations in an OpenAPI 3.1 document, for developers and their tools. Specification 4, 7; D19.

The status and the sentences of each error are from the table in `errors`, so the document agrees with the service.
`error_responses` lists the errors of each operation.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page

from config.infrastructure import paths
from config.infrastructure.errors import Fault
from oauth_bridge.decorators import operation
from oauth_bridge.errors import OAuthFault
from oauth_bridge.openapi import components, sign_out
from oauth_bridge.openapi.components import Json
from oauth_bridge.openapi.error_responses import (
    ANYWHERE,
    AUTHORIZE,
    CALLBACK,
    CONSENT,
    FORM,
    TOKEN,
    TOKEN_STATE,
    USERINFO,
)
from oauth_bridge.protocol.parameter_parsing import BODY_LIMIT_BYTES
from oauth_bridge.protocol.userinfo import PROFILE_SCOPE
from oauth_bridge.redirect_uri_registration import MAX_LENGTH

TEXT_OF_255 = {"type": "string", "minLength": 1, "maxLength": 255}

PUBLISHED = {
    paths.OPENID_CONFIGURATION: (
        "configuration",
        "The addresses and abilities of the service (OpenID Connect Discovery).",
    ),
    paths.SERVER_METADATA: ("metadata", "The same, where RFC 8414 has it."),
    paths.JWKS: ("keys", "The public keys that ID tokens are signed with (RFC 7517)."),
}

ABOUT = """\
Lets an application sign people in by the OAuth 2.0 authorization code grant and read their profile, with an ID token
of OpenID Connect if the application asks for one.

1. Send the browser to `/oauth/authorize`. It comes back to your `redirect_uri` with `code` and `state`.
2. Compare `state`, then exchange the code at `/oauth/token`, from your backend; an application without a secret may
   do so in the browser, from any origin.
3. Read the profile at `/oauth/userinfo`.

Every failure has `error`, for programs, and `error_description`, for the developer who reads it: its wording may
change, so compare `error` only. Ignore members that are not described here, as the service ignores parameters; one
without a value counts as left out. `HEAD` is answered where `GET` is. Any other path under `/oauth/` is 404
`not_found`, in JSON.
"""


@conditional_page
@cache_control(public=True, max_age=300)
def _published_document(request: HttpRequest) -> JsonResponse:
    return JsonResponse(document(), json_dumps_params={"ensure_ascii": False})


published = operation(_published_document, "GET", "HEAD")


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": settings.SERVICE_NAME, "version": settings.VERSION, "description": ABOUT},
        "externalDocs": {"url": f"{settings.AUTH_URL}{paths.DOCS}"},
        "servers": [{"url": settings.BASE_URL, "description": "The API, for backends"}],
        "paths": {
            paths.AUTHORIZE: {
                "servers": [{"url": settings.AUTH_URL, "description": "The pages, for browsers"}],
                "get": _authorize(),
                "post": _consent(),
            },
            paths.TOKEN: {"post": components.for_every_origin(_token())},
            paths.USERINFO: {
                "get": components.for_every_origin(_userinfo("userinfo", USERINFO)),
                "post": components.for_every_origin(
                    _userinfo("userinfoByPost", (*FORM, OAuthFault.TWO_TOKENS, *USERINFO))
                ),
            },
            paths.REVOKE: {
                "post": components.for_every_origin(_token_state("revoke", "End an access token. RFC 7009."))
            },
            paths.INTROSPECT: {
                "post": components.for_every_origin(
                    _token_state("introspect", "Whether one of your access tokens is valid. RFC 7662.")
                )
            },
            paths.LOGOUT: sign_out.operations(),
            **{path: {"get": _published(name, summary)} for path, (name, summary) in PUBLISHED.items()},
        },
        "components": {"schemas": components.SCHEMAS, "securitySchemes": components.security_schemes()},
    }


# The operations -------------------------------------------------------------------------------------------------------


def _authorize() -> Json:
    return {
        "operationId": "authorize",
        "summary": "Ask a person to sign in and to agree: send the browser here.",
        "security": [],
        "parameters": [
            components.query("client_id", "The application.", TEXT_OF_255, required=True),
            components.query(
                "redirect_uri",
                "One of the application's registered callback addresses, equal in every character. An application "
                "without a secret may add a port to an http address of this machine that is registered without one.",
                {"type": "string", "format": "uri", "maxLength": MAX_LENGTH},
                required=True,
            ),
            components.query("response_type", "", {"type": "string", "const": "code"}, required=True),
            components.query(
                "state",
                "Recommended: random, kept in the person's session, compared on the callback. It comes back byte for "
                "byte, up to 4 kB in any case.",
                {"type": "string"},
            ),
            components.query(
                "code_challenge",
                "S256 of RFC 7636. Required of an application without a secret.",
                {"type": "string", "pattern": "^([A-Za-z0-9_-]{43})?$"},
            ),
            components.query(
                "code_challenge_method", "With a `code_challenge`.", {"type": "string", "enum": ["S256", ""]}
            ),
            components.query(
                "ui_locales",
                "Languages for the pages, such as `pt-BR en`: the first that there is (OpenID Connect Core 3.1.2.1).",
                {"type": "string"},
            ),
            components.query(
                "scope",
                "Not needed; an unknown one is ignored. Spaces stand between several. `openid` asks for an ID token; "
                "with it `profile`, `email` and `groups` decide what user info answers.",
                {"type": "string"},
            ),
            components.query(
                "response_mode",
                "`query`, or `form_post`: then a form posts the answer to your `redirect_uri`.",
                {"type": "string"},
            ),
            *_of_openid(),
        ],
        "responses": {
            **components.failures(AUTHORIZE, at="authorize", pages=True),
            "200": components.page("A page for the person, to agree or to go on."),
            "302": components.callback(CALLBACK),
            "403": components.page(
                "A page for the person, who may not use the application, or whose e-mail address is not confirmed."
            ),
        },
    }


def _of_openid() -> list[Json]:
    """Return the parameters that the service reads only from a request with the scope `openid`."""
    meanings = {
        "nonce": "it comes back in the ID token; at most 512 characters.",
        "claims": "single claims, as OpenID Connect Core 5.5 has it.",
        "prompt": "`none` shows no page, `login` asks for a fresh sign-in, `consent` and `select_account` for consent.",
        "max_age": "how many seconds ago the person may have signed in.",
        "id_token_hint": "an ID token of the person who is expected.",
        "login_hint": "fills the field of the sign-in page.",
        "acr_values": "`2` first asks for the second factor of who has one.",
    }
    return [
        components.query(name, f"With `openid`: {meaning}", {"type": "string"}) for name, meaning in meanings.items()
    ]


def _consent() -> Json:
    text = {"type": "string", "pattern": components.PLAIN_TEXT}
    return {
        "operationId": "answerConsent",
        "summary": "What the consent page posts, with fields and cookies of its own. Browsers only.",
        "security": [],
        "requestBody": components.form(
            {
                "pending": {**text, "description": "The request that was agreed to or refused, signed."},
                "decision": {**text, "enum": ["allow", "refuse"]},
                "remember": {**text, "description": "Present when the person is not to be asked again."},
                "csrfmiddlewaretoken": text,
            },
            required=["pending", "decision", "csrfmiddlewaretoken"],
        ),
        "responses": {
            **components.failures(CONSENT, at="answerConsent", pages=True),
            "200": components.page("A page that leads on to the callback address."),
            "303": components.callback(CALLBACK),
        },
    }


def _token() -> Json:
    named = "Left out when the Authorization header holds it."
    return {
        "operationId": "token",
        "summary": "Exchange a code for an access token, from your backend.",
        "description": f"At most {BODY_LIMIT_BYTES} bytes, each of these parameters once, none in the URL. The client "
        "proves itself by `client_id` and `client_secret` in the body or by HTTP Basic, or the same in both; an "
        "application without a secret by `client_id` and `code_verifier`.",
        "security": [{}, {"clientSecretBasic": []}],
        "requestBody": components.form(
            {
                "grant_type": {"type": "string", "const": "authorization_code"},
                "code": {"type": "string", "minLength": 1, "description": "Good once, for 10 minutes."},
                "client_id": {**TEXT_OF_255, "description": named},
                "client_secret": {"type": "string", "minLength": 1, "description": named},
                "redirect_uri": {"type": "string", "description": "When sent, the one the code was issued for."},
                "code_verifier": {
                    "type": "string",
                    "pattern": "^([A-Za-z0-9._~-]{43,128})?$",
                    "description": "Exactly when the code was requested with a `code_challenge`.",
                },
            },
            required=["grant_type", "code"],
        ),
        "responses": {
            **components.failures(TOKEN, at="token", challenge="Present when the client used HTTP Basic."),
            "200": components.json(
                "The access token.",
                {"$ref": "#/components/schemas/Token"},
                components.token_example(),
                Pragma=components.const("no-cache"),
            ),
        },
    }


def _token_state(name: str, summary: str) -> Json:
    answer = components.json("Done.", {"type": "object"})
    if name == "revoke":
        del answer["content"]
    return {
        "operationId": name,
        "summary": summary,
        "description": "The client proves itself as at the token operation; "
        + ("one without a secret by `client_id` and the token." if name == "revoke" else "one without a secret can't."),
        "security": [{}, {"clientSecretBasic": []}],
        "requestBody": components.form(
            {
                "token": {"type": "string", "minLength": 1},
                "client_id": TEXT_OF_255,
                "client_secret": {"type": "string", "minLength": 1},
            },
            required=["token"],
        ),
        "responses": {
            **components.failures(TOKEN_STATE, at=name, challenge="Present when the client used HTTP Basic."),
            "200": answer,
        },
    }


def _published(name: str, summary: str) -> Json:
    return components.for_every_origin(
        {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": {**components.failures(ANYWHERE, at=name), "200": components.published("The document.")},
        }
    )


def _userinfo(name: str, faults: tuple[Fault, ...]) -> Json:
    return {
        "operationId": name,
        "summary": "Who the person is that the access token stands for.",
        "security": [{"bearer": []}, {"signIn": [PROFILE_SCOPE]}],
        **(
            {"requestBody": components.form({"access_token": TEXT_OF_255}, required=[])}
            if faults is not USERINFO
            else {}
        ),
        "responses": {
            **components.failures(faults, at=name, challenge="Names the error when a token was sent. RFC 6750 §3."),
            "200": components.json(
                "The profile; for a request with the scope `openid`, the claims that it asked for.",
                {"anyOf": [{"$ref": f"#/components/schemas/{each}"} for each in ("Profile", "Claims")]},
                components.profile_example(),
            ),
        },
    }
