"""Authorize, token and user info in protocol order: HTTP in, the rooms below asked, HTTP out. Specification 4."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable
from typing import Any, ClassVar, cast
from uuid import UUID

from django.conf import settings
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.exceptions import DisallowedHost, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt, csrf_protect, requires_csrf_token
from django.views.generic import View
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.views.mixins import OAuthLibMixin

from accounts.sessions import SessionStore
from accounts.views import stale_form
from config.infrastructure.network import client_address
from oauth_bridge import (
    applications,
    claims,
    clients,
    codes,
    consent,
    credentials,
    errors,
    pages,
    parameters,
    throttling,
    validator,
)
from oauth_bridge.consent import PendingRequest
from oauth_bridge.faults import Fault, NotVerified, Refused

logger = logging.getLogger("oauth_bridge")

PURPOSES = ("HTTP_SEC_PURPOSE", "HTTP_PURPOSE", "HTTP_X_PURPOSE", "HTTP_X_MOZ")
KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

# What the library still says in words of its own, and the sentence this service has for it.
LIBRARY_FAULTS = {"unsupported_grant_type": Fault.GRANT_TYPE}


class BridgeView(OAuthLibMixin, View):
    """What the three operations share: refusals are explained, as a page or as JSON (D19), and so is a wrong method."""

    http_method_names = ["get", "head", "post"]
    headers: ClassVar[dict[str, str]] = {}

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponse]:
        view = super().as_view(**initkwargs)

        @csrf_exempt
        @functools.wraps(view)
        def explained(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                response = view(request, *args, **kwargs)
            except Refused as refused:
                response = errors.answer(request, refused)
            for name, value in cls.headers.items():
                response[name] = value
            return cast(HttpResponse, response)

        return explained

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        allow = ", ".join(name.upper() for name in self.http_method_names if hasattr(self, name))
        method = request.method if request.method in KNOWN_METHODS else "this method"
        raise Refused(Fault.METHOD, {"Allow": allow}, method=method, allow=allow)


class AuthorizeView(BridgeView):
    """Client, callback address, everything else, sign-in, consent: in this order. Specification 4.1, 4.2; D3 to D9."""

    def get(self, request: HttpRequest) -> HttpResponse:
        _refuse_speculation(request)
        throttling.authorize(request)
        query = parameters.of_query(request)
        pending = self._pending(query.text("request")) if query.text("request") else self._read(query)
        try:
            application, scope = self._verify(request, pending, query)
        except NotVerified as refused:
            return errors.answer(request, refused, sent_address=pending.parameters.get("redirect_uri", ""))
        except Refused as refused:
            return errors.callback_refusal(pending.redirect_uri, refused, pending.state)
        if request.method == "HEAD":
            return HttpResponse()
        if not request.user.is_authenticated:
            return HttpResponseRedirect(pages.sign_in_url(pending, application))
        if request.user.email_verified_at is None:
            return pages.address_not_confirmed(request, application, pending)
        # Whoever was shown a page and answered it too late, or as somebody else, is shown one again: never a short cut.
        must_ask = bool(query.text("notice"))
        if not must_ask and (application.is_trusted or consent.is_remembered(application)):
            # After a form of ours a page comes first: browsers apply its form-action to every hop (browsers.md R1).
            return self._allow(request, pending, application, scope, by_page=bool(query.text("request")))
        return pages.consent(request, application, pending, notice=must_ask)

    head = get

    # Checked here and not before, so that a method this path does not take is told so.
    @method_decorator(csrf_protect)
    def post(self, request: HttpRequest) -> HttpResponse:
        """The answer of a consent page: the signed blob and the decision are read, and neither is believed alone."""
        throttling.authorize(request)
        form = parameters.of_form(request, is_kept=True)
        pending = self._pending(form.get("pending", ""))
        try:
            application, scope = self._verify(request, pending)
        except NotVerified:
            raise
        except Refused as refused:
            return errors.callback_refusal(pending.redirect_uri, refused, pending.state, status=303)
        decision = form.get("decision")
        if decision == "refuse":  # believed of an old page too: it gives nothing away
            if request.user.is_authenticated:
                codes.void(UUID(pending.attempt), request.user)
            return pages.lead_back(request, application, pending, error=Refused(Fault.REFUSED))
        if not request.user.is_authenticated or not pending.is_answerable(request):
            return HttpResponseRedirect(pages.authorize_path(pending, notice=True), status=303)
        if decision != "allow" or request.user.email_verified_at is None:
            return HttpResponseRedirect(pages.authorize_path(pending), status=303)
        if "remember" in form:
            consent.remember(request.user, application)
        return self._allow(request, pending, application, scope)

    def _read(self, query: parameters.Parameters) -> PendingRequest:
        for name in ("client_id", "redirect_uri"):
            if name in query.repeated():
                raise NotVerified(Fault.REPEATED, name=name)
        if not query.text("client_id"):
            raise NotVerified(Fault.MISSING, name="client_id")
        return PendingRequest.from_query(query)

    def _pending(self, blob: str) -> PendingRequest:
        try:
            return PendingRequest.unseal(blob)
        except consent.Damaged:
            raise NotVerified(Fault.REQUEST_DAMAGED) from None

    def _verify(self, request: HttpRequest, pending: PendingRequest, query: parameters.Parameters | None = None) -> Any:
        """The application and the scope. Where anything does not hold, the library goes through it and says what.

        Raises NotVerified: client or callback address does not hold. Raises Refused: anything else does not.
        """
        repeated = query.repeated() if query else []
        application = applications.find(pending.parameters["client_id"], cast(SessionStore, request.session))
        if not repeated and validator.holds(application, pending.parameters):
            return application, claims.PROFILE_SCOPE
        request.oauth_parameters = pending.parameters  # type: ignore[attr-defined]
        try:
            scopes, found = self.validate_authorization_request(request)  # type: ignore[no-untyped-call]
        except NotVerified:
            raise
        except Refused:
            if repeated:
                raise Refused(Fault.REPEATED, name=repeated[0]) from None
            raise
        except OAuthToolkitError:
            raise validator.mismatch(pending.redirect_uri) from None
        if repeated:
            raise Refused(Fault.REPEATED, name=repeated[0])
        return found["request"].client, " ".join(scopes)

    def _allow(
        self, request: HttpRequest, pending: PendingRequest, application: Any, scope: str, *, by_page: bool = False
    ) -> HttpResponse:
        attempt = codes.Attempt(
            id=UUID(pending.attempt),
            application=application,
            redirect_uri=pending.redirect_uri,
            scope=scope,
            code_challenge=pending.parameters.get("code_challenge", ""),
        )
        try:
            code = codes.issue(attempt, request.user)  # type: ignore[arg-type]
        except codes.AlreadyRedeemed:
            return pages.already_signed_in(request, application, pending)
        return pages.lead_back(request, application, pending, code=code, by_page=by_page)


class TokenView(BridgeView):
    """A code for an access token. Specification 4.3; D10 to D14."""

    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}

    def post(self, request: HttpRequest) -> HttpResponse:
        form, challenge = credentials.authenticating(request, parameters.of_form(request))
        try:
            token = self._exchange(request, form)
        except Refused as refused:
            if refused.fault.error == "invalid_client" and challenge:
                refused.headers["WWW-Authenticate"] = challenge
            raise
        return JsonResponse({"access_token": token, "token_type": "Bearer", "expires_in": codes.TOKEN_LIFETIME_SECONDS})

    def _exchange(self, request: HttpRequest, form: dict[str, str]) -> str:
        """The token, in two statements when everything is right. When anything is not, the library finds out what."""
        for name in ("grant_type", "client_id"):
            if name not in form:
                raise Refused(Fault.MISSING, name=name)
        call: dict[str, Any] = {"address": client_address(request), "presented": form}
        if form["grant_type"] != "authorization_code":
            return self._by_library(request, form, call)
        if "code" not in form:
            raise Refused(Fault.MISSING, name="code")
        call["client"] = client = clients.authenticate(form, call["address"])
        with throttling.exchange(client.pk, client.client_id, call["address"], is_public=client.is_public):
            if "code_verifier" in form and not validator.VERIFIER.fullmatch(form["code_verifier"]):
                raise Refused(Fault.VERIFIER_MALFORMED)
            token = codes.new_credential()
            return token if codes.redeem(form, client.pk, token) else self._by_library(request, form, call)

    def _by_library(self, request: HttpRequest, form: dict[str, str], call: dict[str, Any]) -> str:
        """What the library makes of the request: nearly always Refused, with what is wrong."""
        request.oauth_parameters, request.oauth_call = form, call  # type: ignore[attr-defined]
        _uri, _headers, body, status = self.create_token_response(request)  # type: ignore[no-untyped-call]
        answer: dict[str, str] = json.loads(body)
        if status != 200:
            raise Refused(LIBRARY_FAULTS.get(answer.get("error", ""), Fault.BAD_REQUEST))
        return answer["access_token"]


class UserinfoView(BridgeView):
    """The profile of the person the token stands for. Specification 4.4; D16 to D18; RFC 6750."""

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            bearer = codes.read(credentials.bearer_token(request))
            throttling.userinfo(bearer.application_id, bearer.person.pk, is_public=bearer.is_public)
            if claims.PROFILE_SCOPE not in bearer.scopes:
                raise Refused(Fault.TOKEN_SCOPE)
            members = claims.claims_of(bearer.person)
        except Refused as refused:
            if refused.fault.status == 401:
                throttling.userinfo_failure(request)
            raise credentials.challenged(refused) from None
        return JsonResponse(members, json_dumps_params={"ensure_ascii": False})

    head = get


@csrf_exempt
def unknown_path(request: HttpRequest, path: str) -> HttpResponse:
    return errors.not_found(request)


@requires_csrf_token
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """An old form is shown again, fresh; only what can't be shown again ends in 403 (browsers.md R7)."""
    if request.path == reverse("authorize"):
        try:
            pending = PendingRequest.unseal(request.POST.get("pending", ""))
        except consent.Damaged:
            return errors.answer(request, Refused(Fault.CSRF))
        return HttpResponseRedirect(pages.authorize_path(pending, notice=True), status=303)
    return stale_form(request) or errors.answer(request, Refused(Fault.CSRF))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponseBase:
    """400, or 413 for a form that is too large; where another tab signed out meanwhile, what an old form gets."""
    if isinstance(exception, DisallowedHost):
        return errors.host_not_served(request)
    if isinstance(exception, RequestDataTooBig):
        return errors.answer(request, Refused(Fault.TOO_LARGE, limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE))
    if isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        return errors.answer(request, Refused(Fault.TOO_MANY_FIELDS, limit=settings.DATA_UPLOAD_MAX_NUMBER_FIELDS))
    if isinstance(exception, SessionInterrupted):
        if request.method == "POST":
            return csrf_failure(request)
        return HttpResponseRedirect(request.get_full_path())
    return errors.answer(request, Refused(Fault.BAD_REQUEST))


def _refuse_speculation(request: HttpRequest) -> None:
    """D8: what is fetched before anybody asked never reaches a session. After a 204 a real click would do nothing."""
    sent = request.META
    purposes = " ".join(sent[name] for name in PURPOSES if name in sent)
    is_speculative = purposes and re.search("prefetch|prerender|preview", purposes, re.IGNORECASE)
    if is_speculative or sent.get("HTTP_SEC_FETCH_DEST", "document") not in ("document", ""):
        raise NotVerified(Fault.SPECULATIVE, {"Retry-After": "1"})
