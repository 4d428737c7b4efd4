"""The decorator of all operations: it checks the method and answers errors with pages or JSON. D19."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import csrf_exempt

from config.infrastructure.errors import RequestError, SiteFault, TranslatableText, subject
from oauth_bridge import cors, error_responses

View = Callable[[HttpRequest], HttpResponseBase]

KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def operation(
    view: View,
    *methods: str,
    step: str = "",
    challenge: Callable[[HttpRequest, RequestError], None] | None = None,
) -> View:
    """Limit the view to `methods`, and answer every RequestError with a page or JSON. D19.

    `step` is the step of a sign-in at which the activity log records the errors; empty: they are not recorded.
    `challenge` adds headers such as `WWW-Authenticate`, or private facts, to the error.
    """

    @csrf_exempt  # the view itself checks the CSRF token later
    @functools.wraps(view)
    def checked(request: HttpRequest) -> HttpResponseBase:
        subject().step = step
        if cors.is_preflight(request):
            return cors.preflight_response(methods)
        try:
            check_method(request, methods)
            return view(request)
        except RequestError as error:
            if challenge:
                challenge(request, error)
            return error_responses.error_response(request, error)

    return checked


def check_method(request: HttpRequest, methods: tuple[str, ...]) -> None:
    """Check the method of the request. Raises RequestError: the method is not in `methods`."""
    if request.method not in methods:
        allow = ", ".join(methods)
        method = request.method if request.method in KNOWN_METHODS else TranslatableText(gettext_noop("this method"))
        raise RequestError(SiteFault.METHOD, {"Allow": allow}, method=method, allow=allow)
