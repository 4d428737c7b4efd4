"""The wrapper of the operations' views. It checks the method, and answers errors and preflights."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault, subject
from oauth_bridge.oauth import error_responses

View = Callable[[HttpRequest], HttpResponseBase]

PREFLIGHT_SECONDS = "7200"  # browsers cache the answer for two hours, the maximum of Chromium


def operation(
    view: View,
    *methods: str,
    step: str = "",
    challenge: Callable[[HttpRequest, RequestError], None] | None = None,
) -> View:
    """Wrap `view`: check the method, answer CORS preflights, and turn RequestErrors into responses.

    With `step`, errors are recorded under this step. `challenge` may add headers or a cause to an error.
    """

    @csrf_exempt  # the view itself checks the CSRF token later
    @functools.wraps(view)
    def checked(request: HttpRequest) -> HttpResponseBase:
        subject().step = step
        if is_preflight(request):  # before the view, so that no limit counts it
            return preflight_response(methods)
        try:
            if request.method in methods:
                return view(request)
            allow = ", ".join(methods)
            raise RequestError(SiteFault.METHOD, {"Allow": allow}, method=request.method, allow=allow)
        except RequestError as error:
            if challenge:
                challenge(request, error)
            return error_responses.error_response(request, error)

    return checked


def is_preflight(request: HttpRequest) -> bool:
    sent = request.META
    return (
        request.method == "OPTIONS"
        and paths.kind_of(request.path_info).is_cross_origin
        and "HTTP_ORIGIN" in sent
        and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in sent
    )


def preflight_response(methods: tuple[str, ...]) -> HttpResponse:
    # "*", because tracing scripts add headers such as `traceparent`. "*" does not include `Authorization`: Fetch
    # Standard, "CORS-preflight fetch".
    response = HttpResponse(
        headers={
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": "Authorization, *",
            "Access-Control-Max-Age": PREFLIGHT_SECONDS,
        }
    )
    del response["Content-Type"]  # the answer has no content
    return response
