"""The views of authorize, token and user info: the toolkit's, with our checks, pages and errors. Specification 4."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.http import MAX_URL_REDIRECT_LENGTH
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from oauth2_provider.signals import app_authorized
from oauth2_provider.views.base import BaseAuthorizationView
from oauth2_provider.views.base import TokenView as ToolkitTokenView
from oauth2_provider.views.generic import ScopedProtectedResourceView

from config.infrastructure import errors, events, paths
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.events import Event
from config.infrastructure.translation import TranslatableText
from oauth_bridge import application_mails, responses, throttling
from oauth_bridge.backend import VerifiedRequest
from oauth_bridge.consent import pages, remembered
from oauth_bridge.consent.request import FIELD_NAME, PendingRequest
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application
from oauth_bridge.protocol import authorization_header, authorization_request, userinfo
from oauth_bridge.storage import activity_counts, admission, codes

if TYPE_CHECKING:
    from accounts.models import User

View = Callable[[HttpRequest], HttpResponseBase]

KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}  # RFC 6749 §5.1
PREFLIGHT_SECONDS = "7200"  # how long a browser may keep the answer; Chromium keeps it no longer


def is_preflight(request: HttpRequest) -> bool:
    """Whether a browser asks if a script of another origin may send its request. Fetch, CORS-preflight request."""
    sent = request.META
    return (
        request.method == "OPTIONS"
        and paths.kind_of(request.path_info).is_cross_origin
        and "HTTP_ORIGIN" in sent
        and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in sent
    )


def operation(view: View, *methods: str, challenge: Callable[[HttpRequest, RequestError], None] | None = None) -> View:
    """The view, which is called with these methods only. Every RequestError is answered by a page or JSON. D19.

    `challenge` adds headers to the error, such as `WWW-Authenticate`.
    """

    @csrf_exempt  # the view checks the CSRF token itself, after the method
    @functools.wraps(view)
    def checked(request: HttpRequest) -> HttpResponseBase:
        if is_preflight(request):
            return preflight_response(methods)
        try:
            check_method(request, methods)
            return view(request)
        except RequestError as error:
            if challenge:
                challenge(request, error)
            return responses.error_response(request, error)

    return checked


def preflight_response(methods: tuple[str, ...]) -> HttpResponse:
    """The answer to a browser that asks for an application's script. Nothing is counted. D22.

    It names `Authorization`, which "*" does not cover (Fetch, CORS-preflight fetch).
    """
    response = HttpResponse(
        headers={
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": PREFLIGHT_SECONDS,
        }
    )
    del response["Content-Type"]  # there is no content
    return response


def check_method(request: HttpRequest, methods: tuple[str, ...]) -> None:
    """Raises RequestError: the method is none of these."""
    if request.method not in methods:
        allow = ", ".join(methods)
        method = request.method if request.method in KNOWN_METHODS else TranslatableText(gettext_noop("this method"))
        raise RequestError(SiteFault.METHOD, {"Allow": allow}, method=method, allow=allow)


class AuthorizeView(BaseAuthorizationView):
    """Verifies the request, then asks for a sign-in, then for consent. Specification 4.1, 4.2; D3 to D9, D23."""

    scopes: list[str]
    credentials: VerifiedRequest

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        """Verify the request before the toolkit's view asks for a sign-in."""
        if request.method != "POST":
            authorization_request.refuse_speculation(request)
        throttling.authorize(request)
        try:
            self.scopes, self.credentials = self.validate_authorization_request(request)
        except authorization_request.CallbackError as error:
            url = responses.callback_error_url(error.redirect_uri, error, error.state)
            return responses.redirect_to_callback(request, url)
        if request.method == "HEAD":
            return HttpResponse()
        try:
            if self.pending.renews and request.user.is_authenticated:
                codes.refuse_redeemed(UUID(self.pending.renews), request.user.pk)
            if request.method == "GET" and self.pending.is_old and (address := self._renewed_address()):
                return HttpResponseRedirect(address)
            return cast(HttpResponse, super().dispatch(request))
        except codes.AlreadyRedeemed:
            self._report(OAuthFault.ATTEMPT_FINISHED)
            return pages.already_signed_in(request, self.application)

    def _renewed_address(self) -> str:
        """That of the same request as a new attempt; empty where it is too long for a redirect."""
        notice = {pages.NOTICE: "1"} if self.credentials.query.text(pages.NOTICE) else {}
        address = pages.authorize_path(self.pending.renewed(), **notice)
        return address if len(address) <= MAX_URL_REDIRECT_LENGTH else ""

    @property
    def application(self) -> Application:
        return self.credentials.application

    @property
    def pending(self) -> PendingRequest:
        return self.credentials.pending

    @property
    def person(self) -> User:
        return cast("User", self.request.user)

    def handle_no_permission(self) -> HttpResponse:  # type: ignore[override]
        """Redirect to the sign-in page. A post is handled by `post`, because a refusal needs no sign-in."""
        if self.request.method == "POST":
            return self.post(self.request)
        return HttpResponseRedirect(pages.sign_in_url(self.pending, self.application))

    def get(self, request: HttpRequest) -> HttpResponse:
        query = self.credentials.query
        if not admission.is_admitted(self.person, self.application):
            return self._turn_away()
        if self.person.email_verified_at is None:
            self._report(OAuthFault.NO_VERIFIED_EMAIL)
            return pages.address_not_confirmed(request, self.application, self.pending)
        is_our_link = bool(query.text(FIELD_NAME))
        must_ask = bool(query.text(pages.NOTICE))
        if not must_ask and not remembered.is_asked(self.person, self.application):
            # A pending request in the query may come from a form of this service, such as the sign-in. Browsers apply
            # that form's CSP form-action to every redirect after it, so a page with a link replaces the redirect.
            return self._lead_back(allow=True, by_page=is_our_link)
        if not is_our_link and len(address := pages.authorize_path(self.pending)) <= MAX_URL_REDIRECT_LENGTH:
            # Each attempt has an address of its own, so Back and a reload show what became of it, not a new attempt.
            return HttpResponseRedirect(address)
        codes.refuse_redeemed(UUID(self.pending.attempt), self.person.pk)
        return pages.consent(request, self.application, self.pending, notice=must_ask)

    def post(self, request: HttpRequest) -> HttpResponse:
        """The answer of a consent page. "Allow" counts only from the person and the browser session of the page."""
        form = self.credentials.form
        decision = form.get("decision")
        if decision == "refuse":  # also from an outdated page: a refusal discloses nothing
            return self._lead_back(allow=False)
        if not request.user.is_authenticated or not self.pending.is_answerable(request):
            codes.refuse_redeemed(UUID(self.pending.attempt), self.pending.person_id)
            self._report(OAuthFault.CONSENT_PAGE_OUTDATED)
            return pages.ask_again(self.pending)
        if not admission.is_admitted(self.person, self.application):
            return self._turn_away()
        if decision != "allow" or self.person.email_verified_at is None:
            return HttpResponseRedirect(pages.authorize_path(self.pending), status=303)
        answer = self._lead_back(allow=True)
        events.write(Event.CONSENT_GIVEN, client_id=self.application.client_id, person=self.person.pk)
        application_mails.consent_given(request, self.person, self.application, self.pending.attempt)
        if "remember" in form:
            remembered.remember(self.person, self.application)
        else:
            remembered.record(self.person, self.application)
        return answer

    def _turn_away(self) -> HttpResponse:
        """The page for a person who may not use the application. A code from before is deleted. D23.

        Raises AlreadyRedeemed: the application has had its answer to this request (D8).
        """
        codes.discard(UUID(self.pending.attempt), self.person.pk)
        error = self._error(OAuthFault.NOT_ADMITTED)
        url = responses.callback_error_url(self.pending.redirect_uri, error, self.pending.state)
        return pages.not_admitted(self.request, self.application, self.pending, url)

    def _report(self, fault: OAuthFault) -> None:
        """For an error that a page or a redirect of this service answers."""
        errors.report(self._error(fault))

    def _error(self, fault: OAuthFault) -> RequestError:
        error = RequestError(fault).about(client=self.application, person=self.request.user.pk)
        return error.about(attempt=self.pending.attempt)

    def _lead_back(self, *, allow: bool, by_page: bool = False) -> HttpResponse:
        scope = " ".join(self.scopes)
        url, *_ = self.create_authorization_response(self.request, scope, self.credentials, allow)
        return pages.lead_back(self.request, self.application, url, by_page=by_page, is_refusal=not allow)


class TokenView(ToolkitTokenView):
    """Exchanges a code for an access token. Specification 4.3; D10 to D14."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Replaces the toolkit's method, which parses the form leniently and reads the token again for its signal."""
        _url, headers, body, status = self.create_token_response(request)
        app_authorized.send_robust(sender=self, request=request, token=request.access_token)  # type: ignore[attr-defined]
        return HttpResponse(body, status=status, headers={**headers, **NO_STORE})


class UserinfoView(ScopedProtectedResourceView):
    """The profile of the person whose access token is sent. Specification 4.4; D16 to D18; RFC 6750."""

    required_scopes = [userinfo.PROFILE_SCOPE]  # type: ignore[assignment]

    def get(self, request: HttpRequest) -> HttpResponse:
        bearer = request.bearer  # type: ignore[attr-defined]
        claims = userinfo.profile_of(bearer)
        if bearer.attempt:
            activity_counts.note_profile_read(bearer.attempt, bearer.user.pk, bearer.client_id, request.received_at)  # type: ignore[attr-defined]
        return JsonResponse(claims, json_dumps_params={"ensure_ascii": False})


def challenge_client(request: HttpRequest, error: RequestError) -> None:
    error.headers.update(NO_STORE)
    authorization_header.challenge_client(request, error)


def challenge_bearer(request: HttpRequest, error: RequestError) -> None:
    authorization_header.challenge_bearer(error)


authorize = operation(csrf_protect(AuthorizeView.as_view()), "GET", "HEAD", "POST")
token = operation(TokenView.as_view(), "POST", challenge=challenge_client)
user_info = operation(UserinfoView.as_view(), "GET", "HEAD", challenge=challenge_bearer)


@csrf_exempt
def unknown_path(request: HttpRequest, path: str) -> HttpResponse:
    return responses.not_found(request)
