"""The view of logout, to which an application sends a person to sign out. OpenID Connect RP-Initiated Logout 1.0.

If the request contains an ID token of the signed-in person, the view signs the person out at once. Otherwise a page
first asks the person to confirm, so that a link from a stranger cannot sign the person out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_protect

from accounts.pages import person_context
from accounts.sign_in.views import sign_out
from config.infrastructure import errors
from oauth_bridge import throttling
from oauth_bridge.activity_models import Step
from oauth_bridge.callback import redirect_to_callback
from oauth_bridge.consent import callback_pages
from oauth_bridge.decorators import operation
from oauth_bridge.protocol import authorization_request, logout_request, parameter_parsing
from oauth_bridge.protocol.logout_request import LogoutRequest

if TYPE_CHECKING:
    from accounts.models import User

FIELD_NAME = "leaving"
SALT = "oauth_bridge.logout"
PAGE_LIFETIME = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Question:
    """The data of the page that asks for a confirmation of the sign-out. The form contains the data, signed and dated.

    `state` is percent-encoded.
    """

    client_id: str
    address: str
    state: str | None
    person_id: str

    def seal(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    @classmethod
    def unseal(cls, sealed: str, max_age: timedelta | None = None) -> Question | None:
        """Return the question; None if `sealed` is damaged or older than `max_age`."""
        try:
            return cls(**signing.loads(sealed, salt=SALT, max_age=max_age))
        except (signing.BadSignature, TypeError, ValueError):
            return None

    @property
    def path(self) -> str:
        """The path of the page that asks this question again."""
        sent = {"client_id": self.client_id, "post_logout_redirect_uri": self.address}
        query = urlencode({name: value for name, value in sent.items() if value})
        state = "" if self.state is None else f"&state={self.state}"
        return f"{reverse('end_session')}?{query}{state}"


def request_or_answer(request: HttpRequest) -> HttpResponseBase:
    """Serve logout. If an application posts a request, redirect to the same request as a link.

    `views.request_or_answer` explains the reason. Other posts come from the page of this service.
    """
    posted = parameter_parsing.posted_request(request, unless=FIELD_NAME)
    if posted is not None:
        return HttpResponseRedirect(f"{request.path}?{posted}" if posted else request.path, status=303)
    if request.method == "POST":
        return _answered(request)
    return _asked(request)


def _asked(request: HttpRequest) -> HttpResponse:
    authorization_request.refuse_speculation(request)
    throttling.logout(request)
    errors.subject().person = request.user.pk
    asked = logout_request.read(parameter_parsing.of_query(request))
    if request.method == "HEAD":
        return HttpResponse()
    if not request.user.is_authenticated:
        return _leave(request, asked) if asked.url else render(request, "oauth_bridge/signed_out.html")
    if asked.person_id == str(request.user.pk):
        sign_out(request)
        return _leave(request, asked)
    return _question(request, asked)


@csrf_protect
def _answered(request: HttpRequest) -> HttpResponse:
    """Sign out the person who has confirmed on the page.

    If the page is old or was made for another person, the signed-in person is asked again.
    """
    throttling.logout(request)
    form = parameter_parsing.of_form(request, has_been_read=True)
    sealed = form.get(FIELD_NAME, "")
    question = Question.unseal(sealed)
    if question is None:
        return HttpResponseRedirect(reverse("end_session"), status=303)
    is_old = Question.unseal(sealed, PAGE_LIFETIME) is None
    if request.user.is_authenticated and (is_old or str(request.user.pk) != question.person_id):
        return redirect_to_callback(request, question.path)  # HttpResponseRedirect refuses a URL with a long state
    application = logout_request.verify(question.client_id, question.address)
    if request.user.is_authenticated:
        sign_out(request)
    return _leave(request, LogoutRequest(application, question.address, question.state))


def _question(request: HttpRequest, asked: LogoutRequest) -> HttpResponse:
    person, application = cast("User", request.user), asked.application
    client_id = application.client_id if application else ""
    context = {
        "application": application.caption if application else None,
        "person": person_context(person),
        "field_name": FIELD_NAME,
        "leaving": Question(client_id, asked.address, asked.state, str(person.pk)).seal(),
        "leads_back": bool(asked.address),
    }
    response = render(request, "oauth_bridge/logout.html", context)
    response.leads_to_application = bool(asked.address)  # type: ignore[attr-defined]  # read by config.http.response_headers
    return response


def _leave(request: HttpRequest, asked: LogoutRequest) -> HttpResponse:
    """Redirect to the application, or to the page that confirms the sign-out."""
    if asked.application and asked.url:
        return callback_pages.leave(request, asked.application, asked.url)
    return HttpResponseRedirect(reverse("end_session"), status=303)


end_session = operation(request_or_answer, "GET", "HEAD", "POST", step=Step.LOGOUT)
