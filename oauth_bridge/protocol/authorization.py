"""Authorization requests: read one, verify the client, the callback address, everything else. D3, D5, D8, D9, D17.

Specification 4.1, 5.4; RFC 6749 §4.1.1; RFC 7636 §4.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import HttpRequest

from oauth_bridge import redirect_uris
from oauth_bridge.errors import Fault, RequestError, UnverifiedRequest
from oauth_bridge.models import Application
from oauth_bridge.protocol.parameters import Parameters
from oauth_bridge.storage import applications

CARRIED = ("client_id", "redirect_uri", "response_type", "scope", "code_challenge", "code_challenge_method")
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
PURPOSE_HEADERS = ("HTTP_SEC_PURPOSE", "HTTP_PURPOSE", "HTTP_X_PURPOSE", "HTTP_X_MOZ")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """`parameters` that have a value, `state` percent-encoded byte for byte, and one repeated name, if any."""

    parameters: dict[str, str]
    state: str | None = None
    repeated: str = ""

    @classmethod
    def from_query(cls, query: Parameters) -> AuthorizationRequest:
        """Raises UnverifiedRequest: client_id or redirect_uri is repeated, or client_id is missing."""
        repeated = query.repeated()
        for name in ("client_id", "redirect_uri"):
            if name in repeated:
                raise UnverifiedRequest(Fault.REPEATED, name=name)
        if not query.text("client_id"):
            raise UnverifiedRequest(Fault.MISSING, name="client_id")
        # A value that is longer than any right one stays wrong when it is cut.
        sent = {name: query.text(name)[: redirect_uris.MAX_LENGTH + 1] for name in CARRIED}
        parameters = {name: value for name, value in sent.items() if value}
        return cls(parameters, query.percent_encoded("state"), repeated[0] if repeated else "")

    @property
    def redirect_uri(self) -> str:
        return self.parameters.get("redirect_uri", "")


class CallbackError(RequestError):
    """Client and callback address are right, something else is not: the answer is a redirect. RFC 6749 §4.1.2.1."""

    def __init__(self, request: AuthorizationRequest, fault: Fault, **details: object) -> None:
        super().__init__(fault, None, **details)
        self.redirect_uri = request.redirect_uri
        self.state = request.state


def verify(request: AuthorizationRequest) -> Application:
    """The application that asks, once everything in its request is right. D3: client, callback address, the rest.

    Raises UnverifiedRequest: the client or the callback address is wrong, so nothing is redirected (RFC 6749 §4.1.2.1).
    Raises CallbackError: anything else is wrong, and the application learns it by a redirect.
    """
    sent = request.parameters
    application = applications.find(sent["client_id"])
    if application is None:
        raise UnverifiedRequest(Fault.CLIENT_UNKNOWN, request.redirect_uri)
    if not application.is_enabled:
        raise UnverifiedRequest(Fault.CLIENT_DISABLED, request.redirect_uri)

    if not request.redirect_uri:
        raise UnverifiedRequest(Fault.MISSING, name="redirect_uri")
    if request.redirect_uri not in application.callback_addresses:
        parts = redirect_uris.likely_differences(request.redirect_uri)
        raise UnverifiedRequest(Fault.REDIRECT_URI_MISMATCH, request.redirect_uri, parts=parts)

    if request.repeated:
        raise CallbackError(request, Fault.REPEATED, name=request.repeated)
    if "response_type" not in sent:
        raise CallbackError(request, Fault.MISSING, name="response_type")
    if sent["response_type"] != "code":
        raise CallbackError(request, Fault.RESPONSE_TYPE)
    if "code_challenge" in sent:
        if sent.get("code_challenge_method") != "S256":
            raise CallbackError(request, Fault.CHALLENGE_METHOD)
        if not CHALLENGE.fullmatch(sent["code_challenge"]):
            raise CallbackError(request, Fault.CHALLENGE_MALFORMED)
    elif application.client_type == Application.CLIENT_PUBLIC:
        raise CallbackError(request, Fault.CHALLENGE_NEEDED)
    elif "code_challenge_method" in sent:
        raise CallbackError(request, Fault.MISSING, name="code_challenge")
    return application


def refuse_speculation(request: HttpRequest) -> None:
    """Raises RequestError: the browser fetches the page before anybody asked for it, or for a frame or a script. D8.

    503, because browsers show it nowhere; after a 204 a real click would do nothing.
    """
    sent = request.META
    purposes = " ".join(sent[name] for name in PURPOSE_HEADERS if name in sent)
    is_speculative = purposes and re.search("prefetch|prerender|preview", purposes, re.IGNORECASE)
    if is_speculative or sent.get("HTTP_SEC_FETCH_DEST", "document") not in ("document", ""):
        raise RequestError(Fault.SPECULATIVE, {"Retry-After": "1"})
