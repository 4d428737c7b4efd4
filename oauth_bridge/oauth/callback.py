"""The verified callback address, and the answers to it: by a redirect, a posted form or a link."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from config.infrastructure import errors
from config.infrastructure.errors import RequestError
from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.models import Application

WEB_SCHEMES = ("http:", "https:")  # registered addresses contain the scheme in lower case


class Callback(NamedTuple):
    """A verified callback address, and the percent-encoded parameters that each answer contains.

    A parameter that is None is left out. `iss` is sent to applications that use OpenID Connect (RFC 9207). If
    `is_posted` is true, a form posts the parameters.
    """

    redirect_uri: str
    state: str | None
    iss: str | None
    is_posted: bool = False

    def url(self, **parameters: str) -> str:
        """Return the address with `parameters`, `state` and `iss`. `parameters` are already percent-encoded."""
        sent = {**parameters, "state": self.state, "iss": self.iss}
        pairs = "&".join([f"{name}={value}" for name, value in sent.items() if value is not None])
        return f"{self.redirect_uri}{'&' if '?' in self.redirect_uri else '?'}{pairs}"

    def error_url(self, error: RequestError) -> str:
        """Report the error, and return the address with the error as parameters. RFC 6749 §4.1.2.1."""
        errors.report(error)
        return self.url(error=error.fault.error, error_description=quote(error.description, safe=""))


def redirect_to_callback(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect to `url`, which Django's HttpResponseRedirect would rewrite or, with a private scheme, refuse."""
    status = HTTPStatus.SEE_OTHER if request.method == "POST" else HTTPStatus.FOUND
    return HttpResponse(status=status, headers={"Location": url, "Referrer-Policy": "no-referrer"})


def lead_back(
    request: HttpRequest,
    application: Application,
    callback: Callback,
    url: str,
    *,
    by_page: bool = False,
    is_refusal: bool = False,
) -> HttpResponse:
    """Redirect to `url`, which `callback` has made, or show a page that posts its parameters or, as `leave`, a link."""
    if not callback.is_posted:
        return leave(request, application, url, by_page=by_page, is_refusal=is_refusal)
    # The parameters of `url`, after the address and "?" or "&".
    fields = parse_qsl(url[len(callback.redirect_uri) + 1 :], keep_blank_values=True, errors="replace")
    context = {"application": application.caption, "action": callback.redirect_uri, "fields": fields}
    response = render(request, "oauth_bridge/posting.html", context)
    response.leads_to_application = True  # type: ignore[attr-defined]  # read by config.http.response_headers
    response["Referrer-Policy"] = "no-referrer"
    return response


def leave(
    request: HttpRequest, application: Application, url: str, *, by_page: bool = False, is_refusal: bool = False
) -> HttpResponse:
    """Redirect to an address of the application, or show a page with a link if a browser may block the redirect.

    With `is_refusal`, the page says that the person refused. Otherwise, the page says whether the person is signed in.
    """
    if url.startswith(WEB_SCHEMES) and not by_page:
        return redirect_to_callback(request, url)
    context = {"application": application.caption, "url": url, "is_refusal": is_refusal}
    response = render(request, "oauth_bridge/continuing.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response


def destination(redirect_uri: str) -> dict[str, Any]:
    """Describe the callback address for a person to check: its host or private scheme, and the full address."""
    parts = urlsplit(redirect_uri)
    is_web = redirect_uri.startswith(WEB_SCHEMES)
    return {
        "host": parts.netloc if is_web else parts.scheme,
        "uri": redirect_uri,
        "on_this_device": not is_web or parts.hostname in LOOPBACK_HOSTS,
    }
