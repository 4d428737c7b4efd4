"""The views of the OAuth operations except logout. Specification 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.http import MAX_URL_REDIRECT_LENGTH
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from oauth2_provider.views.base import BaseAuthorizationView, RevokeTokenView
from oauth2_provider.views.base import TokenView as ToolkitTokenView
from oauth2_provider.views.generic import ScopedProtectedResourceView

from config.infrastructure import errors, events
from config.infrastructure.errors import RequestError
from config.infrastructure.events import Event
from config.infrastructure.network import client_address
from oauth_bridge.activity import counts
from oauth_bridge.applications import mails
from oauth_bridge.backend import VerifiedRequest
from oauth_bridge.consent import consents, pages
from oauth_bridge.consent.pending_request import FIELD_NAME, PendingRequest
from oauth_bridge.credentials import admission, codes
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Step
from oauth_bridge.oauth import (
    authentication,
    authorization,
    error_responses,
    parameters,
    revocation_introspection,
    throttling,
    userinfo,
)
from oauth_bridge.oauth.callback import leave
from oauth_bridge.oauth.operation import View, is_preflight, operation, preflight_response
from oauth_bridge.openid import discovery, signing_keys
from oauth_bridge.openid import request as openid_request
from oauth_bridge.openid.request import Asked, Need

if TYPE_CHECKING:
    from accounts.models import User

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}  # RFC 6749 §5.1


class AuthorizeView(BaseAuthorizationView):
    """Verify the request, then ask for a sign-in and for consent if they are needed. Specification 4.1, 4.2."""

    verified: VerifiedRequest
    application: Application
    pending: PendingRequest
    asked: Asked

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        # The toolkit's method would ask for the sign-in before it verifies the request.
        if request.method != "POST":
            authorization.refuse_speculation(request)
        throttling.page("authorize", request)
        errors.subject().person = request.user.pk
        _scopes, self.verified = self.validate_authorization_request(request)
        self.application, self.pending = self.verified.application, self.verified.pending
        try:
            authorization.check(self.pending, self.application)
        except RequestError as error:
            # As in `get`, a form of this service may have redirected here.
            return self._leave(self.pending.error_url(error), by_page=bool(request.GET.get(FIELD_NAME)))
        self.asked = Asked.of(self.pending.parameters)
        if request.method == "HEAD":
            return HttpResponse()
        try:
            if request.method == "POST":
                return self.post(request)
            if request.user.is_authenticated:
                return self.get(request)
            if self.asked.is_silent:
                return self._refuse(OAuthFault.LOGIN_REQUIRED)
            return HttpResponseRedirect(pages.sign_in_url(self.pending))
        except codes.AlreadyRedeemed:
            self._report(OAuthFault.ATTEMPT_FINISHED)
            return pages.already_signed_in(request, self.application)

    @property
    def facts(self) -> list[str]:
        return openid_request.facts(self.pending.parameters)

    @property
    def person(self) -> User:
        return cast("User", self.request.user)

    def get(self, request: HttpRequest) -> HttpResponse:
        query, asked, person = self.verified.query, self.asked, self.person
        if asked.is_silent and self._need():
            return self._refuse(OAuthFault.LOGIN_REQUIRED)
        is_admitted = admission.is_admitted(person, self.application)
        if asked.is_silent and not (is_admitted and person.email_verified_at):
            return self._refuse(OAuthFault.INTERACTION_REQUIRED)
        if not is_admitted:
            return self._turn_away()
        if person.email_verified_at is None:
            self._report(OAuthFault.NO_VERIFIED_EMAIL)
            return pages.address_not_confirmed(request, self.application, self.pending)
        if need := self._need():
            return self._ask_for_proof(need)
        is_our_link = bool(query.text(FIELD_NAME))
        must_ask = bool(query.text(pages.NOTICE) or asked.prompts & {"consent", "select_account"})
        if not must_ask and not consents.is_asked(person, self.application, self.facts, self.pending.redirect_uri):
            # A form of this service, such as the sign-in, may have redirected to our link. Browsers apply the CSP
            # form-action of that page to every following redirect, so a page with a link replaces the redirect.
            return self._lead_back(allow=True, by_page=is_our_link or None)
        if asked.is_silent:
            return self._refuse(OAuthFault.CONSENT_REQUIRED)
        if not is_our_link and len(address := pages.authorize_path(self.pending)) <= MAX_URL_REDIRECT_LENGTH:
            # Each attempt has its own address. The Back button and a reload therefore show the result of the attempt,
            # and do not begin a new attempt.
            return HttpResponseRedirect(address)
        codes.refuse_redeemed(self.verified.attempt, person.pk)
        return pages.consent(request, self.application, self.pending, self.facts, query.text(pages.NOTICE))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Accept "Allow" only from the person and the browser session for which the consent page was made."""
        form = self.verified.form
        decision = form.get("decision")
        if decision == "refuse":  # also an outdated page, and without a sign-in: a refusal discloses nothing
            return self._lead_back(allow=False)
        if not request.user.is_authenticated or not self.pending.is_answerable(request):
            codes.refuse_redeemed(self.verified.attempt, self.pending.person_id)
            self._report(OAuthFault.CONSENT_PAGE_OUTDATED)
            return pages.ask_again(self.pending)
        is_admitted = admission.is_admitted(self.person, self.application)
        if decision != "allow" or not is_admitted or self.person.email_verified_at is None or self._need():
            return HttpResponseRedirect(pages.authorize_path(self.pending), status=303)
        answer = self._lead_back(allow=True)
        events.write(Event.CONSENT_GIVEN, client_id=self.application.client_id, person=self.person.pk)
        shown = pages.shown_facts(self.person, self.application, self.facts)
        mails.consent_given(request, self.person, self.application, self.pending.attempt, shown)
        if "remember" in form and not self.application.has_own_port(self.pending.redirect_uri):
            consents.remember(self.person, self.application, self.facts)
        else:
            consents.record(self.person, self.application, self.facts)
        return answer

    def _refuse(self, fault: OAuthFault, *, by_page: bool = False) -> HttpResponse:
        return self._leave(self.pending.error_url(RequestError(fault)), by_page=by_page)

    def _need(self) -> Need | None:
        return openid_request.need(self.request, self.asked, self.pending.asked_at)

    def _ask_for_proof(self, need: Need) -> HttpResponse:
        if need is Need.IMPOSSIBLE:
            return self._refuse(OAuthFault.ACR, by_page=True)
        if need is Need.OTHER_ACCOUNT:
            return self._ask_for_another(OAuthFault.LOGIN_REQUIRED, "other_account", status=200)
        return HttpResponseRedirect(openid_request.proof_url(self.request, need, pages.authorize_path(self.pending)))

    def _turn_away(self) -> HttpResponse:
        """Refuse a person not admitted. Delete the attempt's code. Raises AlreadyRedeemed: the code was redeemed."""
        codes.discard(self.verified.attempt, self.person.pk)
        errors.subject().step = Step.CONSENT
        return self._ask_for_another(OAuthFault.NOT_ADMITTED, "not_admitted", status=403)

    def _ask_for_another(self, fault: OAuthFault, page: str, status: int) -> HttpResponse:
        url, template = self.pending.error_url(RequestError(fault)), f"oauth_bridge/{page}.html"
        return pages.wrong_account(self.request, template, self.application, self.pending, url, status=status)

    def _report(self, fault: OAuthFault) -> None:
        errors.subject().step = Step.CONSENT
        errors.report(RequestError(fault))

    def _lead_back(self, *, allow: bool, by_page: bool | None = None) -> HttpResponse:
        url, *_ = self.create_authorization_response(self.request, "", self.verified, allow)
        return self._leave(url, by_page=by_page, is_refusal=not allow)

    def _leave(self, url: str, *, by_page: bool | None, is_refusal: bool = False) -> HttpResponse:
        posted_to = self.pending.posted_to
        return leave(self.request, self.application, url, posted_to=posted_to, by_page=by_page, is_refusal=is_refusal)


class TokenView(ToolkitTokenView):
    """Exchange a code for an access token. Specification 4.3."""

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        # The toolkit's methods parse forms leniently and load the stored token once more.
        _url, headers, body, status = self.create_token_response(request)
        return HttpResponse(body, status=status, headers={**headers, **NO_STORE})


def answer_introspection(request: HttpRequest) -> HttpResponse:
    """Describe a token of the calling application. RFC 7662. The toolkit's view describes any application's token."""
    form = authentication.of_request(request, parameters.read_form(request).texts())
    return JsonResponse(revocation_introspection.introspect(form, client_address(request)), headers=NO_STORE)


class UserinfoView(ScopedProtectedResourceView):
    """Answer with the profile of the person whose sign-in led to the access token. Specification 4.4; RFC 6750."""

    required_scopes = [userinfo.PROFILE_SCOPE]  # type: ignore[assignment]

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        # The toolkit's method keeps only the person, but the claims depend on the token.
        _valid, bearer = self.verify_request(request)
        profile = userinfo.profile_of(bearer)
        if bearer.attempt:
            counts.note_profile_read(bearer.attempt, bearer.user.pk, bearer.client_id, request.received_at)  # type: ignore[attr-defined]
        return JsonResponse(profile, json_dumps_params={"ensure_ascii": False})


def challenge_client(request: HttpRequest, error: RequestError) -> None:
    error.headers.update(NO_STORE)
    authentication.add_basic(request, error)


_authorize = AuthorizeView.as_view()
_answer = csrf_protect(_authorize)  # the middleware has already prepared the token that a page of a GET contains


def request_or_answer(request: HttpRequest) -> HttpResponseBase:
    if link := parameters.as_link(request, unless=FIELD_NAME, needs="client_id"):
        return link
    if request.method == "POST":
        errors.subject().step = Step.CONSENT
        return _answer(request)
    return _authorize(request)


def _published(view: View) -> View:
    kept = cache_control(public=True, max_age=int(signing_keys.PUBLISHED_FOR.total_seconds()))
    return operation(kept(view), "GET", "HEAD")


@_published
def configuration(request: HttpRequest) -> JsonResponse:
    """Answer with the metadata document. OpenID Connect Discovery 1.0 §4; RFC 8414 §3."""
    return JsonResponse(discovery.document())


@_published
def jwks(request: HttpRequest) -> JsonResponse:
    """Answer with the public signing keys. RFC 7517 §5."""
    return JsonResponse({"keys": signing_keys.published()})


authorize = operation(
    request_or_answer,
    "GET",
    "HEAD",
    "POST",
    step=Step.AUTHORIZE,
    challenge=authorization.name_application,
)
revoke = operation(RevokeTokenView.as_view(), "POST", challenge=challenge_client)
introspect = operation(answer_introspection, "POST", challenge=challenge_client)
token = operation(TokenView.as_view(), "POST", step=Step.EXCHANGE, challenge=challenge_client)
user_info = operation(UserinfoView.as_view(), "GET", "HEAD", "POST", step=Step.PROFILE, challenge=userinfo.add_bearer)


@csrf_exempt
def unknown_path(request: HttpRequest, path: str) -> HttpResponse:
    return preflight_response(("GET", "HEAD")) if is_preflight(request) else error_responses.not_found(request)
