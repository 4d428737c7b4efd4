"""What all operations share: their methods, the preflights of browsers, and their errors as pages or JSON. D19, D22."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import csrf_exempt

from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.translation import TranslatableText
from oauth_bridge import responses

View = Callable[[HttpRequest], HttpResponseBase]

KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
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

    `challenge` adds headers to the error, such as `WWW-Authenticate`, or what only this service may know of it.
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
