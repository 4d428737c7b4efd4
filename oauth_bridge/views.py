"""The views of authorize, token and user info: the toolkit's, with our checks, pages and errors. Specification 4."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.generic import View
from oauth2_provider.signals import app_authorized
from oauth2_provider.views.base import BaseAuthorizationView
from oauth2_provider.views.base import TokenView as ToolkitTokenView
from oauth2_provider.views.generic import ScopedProtectedResourceView

from config.infrastructure.translation import TranslatableText
from oauth_bridge import notices, responses, throttling
from oauth_bridge.consent import pages, remembered
from oauth_bridge.consent.request import FIELD_NAME, PendingRequest
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.models import Application
from oauth_bridge.protocol import authentication, authorization, userinfo
from oauth_bridge.protocol.parameters import Parameters
from oauth_bridge.storage.codes import AlreadyRedeemed

if TYPE_CHECKING:
    from accounts.models import User

KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class OperationMixin(View):
    """Checks the method first, and answers every RequestError with a page or JSON. D19."""

    headers: ClassVar[dict[str, str]] = {}
    protect: ClassVar[Callable[[Any], Any]] = csrf_exempt

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponse]:
        view = cls.protect(super().as_view(**initkwargs))

        @csrf_exempt
        @functools.wraps(view)
        def operation(request: HttpRequest) -> HttpResponse:
            try:
                cls.check_method(request)
                response = view(request)
            except RequestError as error:
                response = cls.answer_error(request, error)
            for name, value in cls.headers.items():
                response[name] = value
            return cast(HttpResponse, response)

        return operation

    @classmethod
    def check_method(cls, request: HttpRequest) -> None:
        allowed = [name.upper() for name in cls.http_method_names]
        if request.method not in allowed:
            allow = ", ".join(allowed)
            method = (
                request.method if request.method in KNOWN_METHODS else TranslatableText(gettext_noop("this method"))
            )
            raise RequestError(Fault.METHOD, {"Allow": allow}, method=method, allow=allow)

    @classmethod
    def answer_error(cls, request: HttpRequest, error: RequestError) -> HttpResponse:
        return responses.error_response(request, error)


class AuthorizeView(OperationMixin, BaseAuthorizationView):
    """Verifies the request, then asks for a sign-in, then for consent. Specification 4.1, 4.2; D3 to D9."""

    http_method_names = ["get", "head", "post"]
    protect = csrf_protect
    scopes: list[str]
    credentials: dict[str, Any]

    def dispatch(self, request: HttpRequest) -> HttpResponse:
        """Verify the request before the toolkit's view asks for a sign-in."""
        if request.method != "POST":
            authorization.refuse_speculation(request)
        throttling.authorize(request)
        try:
            self.scopes, self.credentials = self.validate_authorization_request(request)
        except authorization.CallbackError as error:
            url = responses.callback_error_url(error.redirect_uri, error, error.state)
            return responses.redirect_to_callback(request, url)
        if request.method == "HEAD":
            return HttpResponse()
        return cast(HttpResponse, super().dispatch(request))

    @property
    def application(self) -> Application:
        return cast(Application, self.credentials["application"])

    @property
    def pending(self) -> PendingRequest:
        return cast(PendingRequest, self.credentials["pending"])

    @property
    def person(self) -> User:
        return cast("User", self.request.user)

    def handle_no_permission(self) -> HttpResponse:  # type: ignore[override]
        """Redirect to the sign-in page. A post is handled by `post`, because a refusal needs no sign-in."""
        if self.request.method == "POST":
            return self.post(self.request)
        return HttpResponseRedirect(pages.sign_in_url(self.pending, self.application))

    def get(self, request: HttpRequest) -> HttpResponse:
        query: Parameters = self.credentials["query"]
        if self.person.email_verified_at is None:
            return pages.address_not_confirmed(request, self.application, self.pending)
        must_ask = bool(query.text(pages.NOTICE))
        if not must_ask and (self.application.is_trusted or remembered.is_remembered(self.person, self.application)):
            # A pending request in the query may come from a form of this service, such as the sign-in. Browsers apply
            # that form's CSP form-action to every redirect after it, so a page with a link replaces the redirect.
            return self._lead_back(allow=True, by_page=bool(query.text(FIELD_NAME)))
        return pages.consent(request, self.application, self.pending, notice=must_ask)

    def post(self, request: HttpRequest) -> HttpResponse:
        """The answer of a consent page. "Allow" counts only from the person and the browser session of the page."""
        form: dict[str, str] = self.credentials["form"]
        decision = form.get("decision")
        if decision == "refuse":  # also from an outdated page: a refusal discloses nothing
            return self._lead_back(allow=False)
        if not request.user.is_authenticated or not self.pending.is_answerable(request):
            return pages.ask_again(self.pending)
        if decision != "allow" or self.person.email_verified_at is None:
            return HttpResponseRedirect(pages.authorize_path(self.pending), status=303)
        notices.consent_given(request, self.person, self.application, self.pending.attempt)
        if "remember" in form:
            remembered.remember(self.person, self.application)
        else:
            remembered.record(self.person, self.application)
        return self._lead_back(allow=True)

    def _lead_back(self, *, allow: bool, by_page: bool = False) -> HttpResponse:
        scope = " ".join(self.scopes)
        try:
            url, *_ = self.create_authorization_response(self.request, scope, self.credentials, allow)
        except AlreadyRedeemed:
            return pages.already_signed_in(self.request, self.application)
        return pages.lead_back(self.request, self.application, url, by_page=by_page, is_refusal=not allow)


class TokenView(OperationMixin, ToolkitTokenView):
    """Exchanges a code for an access token. Specification 4.3; D10 to D14."""

    http_method_names = ["post"]
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    # The toolkit's two decorators wrap the method anew for each request. `as_view` does what they do.
    dispatch = View.dispatch

    def post(self, request: HttpRequest) -> HttpResponse:
        """Replaces the toolkit's method, which parses the form leniently and reads the token again for its signal."""
        _url, headers, body, status = self.create_token_response(request)
        app_authorized.send_robust(sender=self, request=request, token=request.access_token)  # type: ignore[attr-defined]
        return HttpResponse(body, status=status, headers=headers)

    @classmethod
    def answer_error(cls, request: HttpRequest, error: RequestError) -> HttpResponse:
        authentication.challenge_client(request, error)
        return super().answer_error(request, error)


class UserinfoView(OperationMixin, ScopedProtectedResourceView):
    """The profile of the person whose access token is sent. Specification 4.4; D16 to D18; RFC 6750."""

    http_method_names = ["get", "head"]
    required_scopes = [userinfo.PROFILE_SCOPE]  # type: ignore[assignment]

    def get(self, request: HttpRequest) -> HttpResponse:
        claims = userinfo.claims_of(request.resource_owner)  # type: ignore[attr-defined]
        return JsonResponse(claims, json_dumps_params={"ensure_ascii": False})

    @classmethod
    def answer_error(cls, request: HttpRequest, error: RequestError) -> HttpResponse:
        authentication.challenge_bearer(error)
        return super().answer_error(request, error)


@csrf_exempt
def unknown_path(request: HttpRequest, path: str) -> HttpResponse:
    return responses.not_found(request)
