"""Logout: an application sends a person here to sign out. OpenID Connect RP-Initiated Logout 1.0.

If the request has no ID token of the signed-in person, a page asks the person to confirm, because a stranger may
have made the link.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_protect

from accounts.pages import person_context
from accounts.sign_in.views import sign_out
from config.infrastructure.errors import RequestError, subject
from oauth_bridge.applications import registry
from oauth_bridge.callback_addresses.masking import masked
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Step
from oauth_bridge.oauth import authorization, callback, parameters, throttling
from oauth_bridge.oauth.operation import operation
from oauth_bridge.oauth.parameters import Parameters
from oauth_bridge.openid import id_token

NAMES = ("client_id", "id_token_hint", "post_logout_redirect_uri", "state", "ui_locales")
FIELD_NAME = "leaving"


class LogoutRequest(NamedTuple):
    """A verified request. `state`: percent-encoded. `address`: page after logout. `person_id`: the ID token's `sub`."""

    application: Application | None
    address: str
    state: str | None
    person_id: str

    @property
    def url(self) -> str:
        if not self.address or self.state is None:
            return self.address
        return f"{self.address}{'&' if '?' in self.address else '?'}state={self.state}"

    @property
    def path(self) -> str:
        """The path to which the confirmation page posts. It repeats the request without `id_token_hint`."""
        client_id = self.application.client_id if self.application else ""
        sent = {"client_id": client_id, "post_logout_redirect_uri": self.address}
        query = urlencode({name: value for name, value in sent.items() if value})
        state = "" if self.state is None else f"&state={self.state}"
        return f"{reverse('end_session')}?{query}{state}"


def verified_request(query: Parameters) -> LogoutRequest:
    """Return the request in the query. Raises RequestError, for example if the page after logout is not registered."""
    if name := query.repeated(NAMES):
        raise RequestError(OAuthFault.REPEATED, name=name)
    client_id, address, person_id = query.text("client_id"), query.text("post_logout_redirect_uri"), ""
    application = _noted(client_id)
    if hint := query.text("id_token_hint"):
        try:
            claims = id_token.verified(hint)
        except id_token.NotOurs as error:
            raise RequestError(OAuthFault.LOGOUT_HINT).about(cause=f"logout_{error}") from None
        issued_to, person_id = str(claims.get("aud", "")), str(claims.get("sub", ""))
        if client_id and client_id != issued_to:
            raise RequestError(OAuthFault.LOGOUT_HINT_OF_ANOTHER)
        client_id, application = issued_to, application or _noted(issued_to)
    if client_id and application is None:
        unknown = RequestError(OAuthFault.CLIENT_UNKNOWN)
        registry.explain_unknown(unknown, client_id)
        raise unknown
    if application and not application.is_enabled:
        raise RequestError(OAuthFault.CLIENT_DISABLED)
    if address and application is None:
        raise RequestError(OAuthFault.MISSING, name="client_id").about(cause="logout_client_id_missing")
    if address and application and address not in application.addresses_after_sign_out:
        raise RequestError(OAuthFault.LOGOUT_ADDRESS).about(given=masked(address))
    return LogoutRequest(application, address, query.percent_encoded("state"), person_id)


def _noted(client_id: str) -> Application | None:
    application = registry.find(client_id) if client_id else None
    subject().client_id = application.client_id if application else ""
    return application


def request_or_answer(request: HttpRequest) -> HttpResponseBase:
    if link := parameters.as_link(request, unless=FIELD_NAME):
        return link
    return _answered(request) if request.method == "POST" else _asked(request)


def _asked(request: HttpRequest) -> HttpResponse:
    authorization.refuse_speculation(request)
    throttling.page("logout", request)
    subject().person = request.user.pk
    asked = verified_request(parameters.of_query(request))
    if request.method == "HEAD":
        return HttpResponse()
    if not request.user.is_authenticated:
        return _leave(request, asked) if asked.url else render(request, "oauth_bridge/signed_out.html")
    if asked.person_id == str(request.user.pk):
        sign_out(request)
        return _leave(request, asked)
    context = {
        "application": asked.application,
        "person": person_context(request.user),
        "action": asked.path,
        "leads_back": bool(asked.address),
    }
    response = render(request, "oauth_bridge/logout.html", context)
    response.leads_to_application = bool(asked.address)  # type: ignore[attr-defined]  # read by config.http.response_headers
    return response


@csrf_protect
def _answered(request: HttpRequest) -> HttpResponse:
    """Sign out the signed-in person, or ask again if the confirmation page was shown to another person."""
    throttling.page("logout", request)
    asked = verified_request(parameters.of_query(request))
    if request.user.is_authenticated:
        if request.POST.get(FIELD_NAME) != str(request.user.pk):
            return callback.redirect_to_callback(request, asked.path)  # HttpResponseRedirect refuses a long `state`
        sign_out(request)
    return _leave(request, asked)


def _leave(request: HttpRequest, asked: LogoutRequest) -> HttpResponse:
    if asked.application and asked.url:
        return callback.leave(request, asked.application, asked.url)
    return HttpResponseRedirect(reverse("end_session"), status=303)


end_session = operation(request_or_answer, "GET", "HEAD", "POST", step=Step.LOGOUT)
