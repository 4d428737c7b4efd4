"""Read and verify authorization requests. Specification 4.1, 5.4; RFC 6749 §4.1.1; RFC 7636 §4.3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest

from config.infrastructure import errors, paths
from config.infrastructure.errors import Fault, RequestError, SiteFault, TranslatableText, subject
from oauth_bridge.applications import registry
from oauth_bridge.callback_addresses import registration
from oauth_bridge.callback_addresses.difference import likely_differences
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application
from oauth_bridge.oauth.parameters import Parameters, of_query
from oauth_bridge.openid import claims, id_token
from oauth_bridge.openid import request as openid_request

# The parameters of plain OAuth 2.0, except `state`, which is stored percent-encoded.
NAMES = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "code_challenge",
    "code_challenge_method",
    "response_mode",
    "request",
    "request_uri",
)
OPENID_NAMES = (*NAMES, *openid_request.NAMES)
# Each of these may be sent once. Unknown parameters are ignored, even if repeated (RFC 6749 §3.1).
KNOWN = (*OPENID_NAMES, "state", "ui_locales")
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # the method S256 (RFC 7636 §4.2)
# The causes in the activity log for a missing `code_challenge_method` (None) and for the value `plain`.
CHALLENGE_METHODS = {None: "challenge_method_missing", "plain": "challenge_plain"}
# The causes of refused values of `Sec-Fetch-Dest`. The activity log records them only for known applications.
SCRIPT, FRAME = "called_by_script", "framed"
EMBEDDED = {"empty": SCRIPT, "iframe": FRAME, "frame": FRAME, "embed": FRAME, "object": FRAME}


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    parameters: dict[str, str]  # the known ones that have a value
    state: str | None = None  # percent-encoded byte by byte; None: not sent
    repeated: str = ""  # the name of the first repeated parameter

    @classmethod
    def from_query(cls, query: Parameters, **more: Any) -> Self:
        """Return the request in `query`. `more`: values for the fields that a subclass adds."""
        if name := query.repeated(("client_id", "redirect_uri")):
            raise UnverifiedRequest(OAuthFault.REPEATED, name=name)
        if not query.text("client_id"):
            raise UnverifiedRequest(OAuthFault.MISSING, name="client_id").about(cause="client_id_missing")
        # Every valid redirect_uri is shorter than `most` characters.
        names = OPENID_NAMES if claims.is_openid(query.text("scope")) else NAMES
        most = registration.MAX_LENGTH + 1
        parameters = {name: value[:most] for name, value in query.texts_of(names).items()}
        if parameters.pop("id_token_hint", ""):  # an ID token is a credential, so it is not stored
            parameters[openid_request.HINT] = id_token.hinted(query.text("id_token_hint"))
        return cls(parameters, query.percent_encoded("state"), query.repeated(KNOWN), **more)

    @property
    def client_id(self) -> str:
        return self.parameters.get("client_id", "")

    @property
    def redirect_uri(self) -> str:
        return self.parameters.get("redirect_uri", "")

    @property
    def posted_to(self) -> str:
        """The callback address if a form must post the answer to it (`response_mode=form_post`), otherwise ""."""
        return self.redirect_uri if openid_request.is_posted(self.parameters) else ""

    def url(self, **parameters: str) -> str:
        """Return the callback address with `state`, `parameters` and, for OpenID, `iss` (RFC 9207).

        `parameters` must be percent-encoded already. Call `verify` first, because anybody can send any redirect_uri.
        """
        iss = quote(settings.BASE_URL, safe="") if claims.is_openid(self.parameters.get("scope", "")) else None
        sent = {**parameters, "state": self.state, "iss": iss}
        pairs = "&".join([f"{name}={value}" for name, value in sent.items() if value is not None])
        return f"{self.redirect_uri}{'&' if '?' in self.redirect_uri else '?'}{pairs}"

    def error_url(self, error: RequestError) -> str:
        """Report the error, and return the callback address with the error. RFC 6749 §4.1.2.1."""
        errors.report(error)
        return self.url(error=error.fault.error, error_description=quote(error.description, safe=""))


class UnverifiedRequest(RequestError):
    """The client_id or the redirect_uri cannot be used, so the browser is not redirected to the application."""

    def __init__(
        self, fault: Fault, sent_address: str = "", *, application: Application | None = None, **details: object
    ) -> None:
        super().__init__(fault, None, **details)
        self.sent_address = sent_address
        self.application = application


def verify(request: AuthorizationRequest, query: Parameters) -> Application:
    """Return the application of the request. Raises UnverifiedRequest: the client_id or redirect_uri cannot be used."""
    application = registry.find(request.client_id)
    if application is None:
        unknown = UnverifiedRequest(OAuthFault.CLIENT_UNKNOWN, request.redirect_uri)
        registry.explain_unknown(unknown, request.client_id)
        raise unknown
    subject().client_id = application.client_id
    if not application.is_enabled:
        raise UnverifiedRequest(OAuthFault.CLIENT_DISABLED, application=application)

    if not request.redirect_uri:
        missing = UnverifiedRequest(OAuthFault.MISSING, application=application, name="redirect_uri")
        raise missing.about(cause="redirect_uri_missing")
    if not application.is_callback(request.redirect_uri):
        uri, registered, is_public = request.redirect_uri, application.callback_addresses, application.is_public
        is_cut = query.lost("redirect_uri", KNOWN)
        parts = TranslatableText(*likely_differences(uri, registered, is_public=is_public, is_cut=is_cut))
        mismatch = UnverifiedRequest(OAuthFault.REDIRECT_URI_MISMATCH, uri, application=application, parts=parts)
        raise mismatch.about(registered=registered, is_public=is_public, redirect_uri=uri)
    return application


def check(request: AuthorizationRequest, application: Application) -> None:
    """Check the parameters that `verify` skips. The view sends a raised RequestError to the callback address."""
    sent = request.parameters
    if request.repeated:
        raise RequestError(OAuthFault.REPEATED, name=request.repeated)
    if "response_type" not in sent:
        raise RequestError(OAuthFault.MISSING, name="response_type").about(cause="response_type_missing")
    if sent["response_type"] != "code":
        raise RequestError(OAuthFault.RESPONSE_TYPE)
    if "code_challenge" in sent:
        if sent.get("code_challenge_method") != "S256":
            cause = CHALLENGE_METHODS.get(sent.get("code_challenge_method"), "challenge_method_other")
            raise RequestError(OAuthFault.CHALLENGE_METHOD).about(cause=cause)
        if not CHALLENGE.fullmatch(sent["code_challenge"]):
            raise RequestError(OAuthFault.CHALLENGE_MALFORMED)
    elif application.is_public:
        raise RequestError(OAuthFault.CHALLENGE_NEEDED)
    elif "code_challenge_method" in sent:
        raise RequestError(OAuthFault.MISSING, name="code_challenge").about(cause="challenge_missing")
    if of_openid := openid_request.fault(sent):
        raise RequestError(of_openid)


def refuse_speculation(request: HttpRequest) -> None:
    """Refuse the page to a prefetch, frame, image or script, except `is_silent_in_frame`. Raises RequestError.

    Browsers discard a prefetched response with the status 503, so a click sends a new request.
    """
    sent = request.META
    purposes = sent.get("HTTP_SEC_PURPOSE", "") + sent.get("HTTP_PURPOSE", "")
    is_speculative = purposes and re.search("prefetch|prerender|preview", purposes, re.IGNORECASE)
    destination = sent.get("HTTP_SEC_FETCH_DEST", "document")
    if is_speculative or not (destination in ("document", "") or is_silent_in_frame(request)):
        cause = "" if is_speculative else EMBEDDED.get(destination, "")
        # After a prefetched 204, a click in Chromium would do nothing.
        raise RequestError(OAuthFault.SPECULATIVE, {"Retry-After": "1"}).about(cause=cause)


def is_silent_in_frame(request: HttpRequest) -> bool:
    """Return whether an iframe sends an OpenID request with `prompt=none`. OpenID Connect Core 1.0 §3.1.2.1."""
    if request.path != paths.AUTHORIZE or request.META.get("HTTP_SEC_FETCH_DEST") != "iframe":
        return False
    query = of_query(request)
    return claims.is_openid(query.text("scope")) and query.text("prompt").split() == ["none"]


def is_of_script(request: HttpRequest) -> bool:
    """Return whether a script, or a CORS preflight for a script, requests the path AUTHORIZE."""
    sent = request.META
    is_preflight = request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in sent
    return request.path == paths.AUTHORIZE and (
        is_preflight or EMBEDDED.get(sent.get("HTTP_SEC_FETCH_DEST", "")) == SCRIPT
    )


def name_application(request: HttpRequest, error: RequestError) -> None:
    """Note the application for the activity log if a request is refused because a script or a frame sent it."""
    if error.fault is SiteFault.METHOD and is_of_script(request):
        error.about(cause=SCRIPT)
    if error.cause in (SCRIPT, FRAME):
        application = registry.find(of_query(request).text("client_id"))
        subject().client_id = application.client_id if application else ""
