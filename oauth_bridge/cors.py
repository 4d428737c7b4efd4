"""Answer CORS preflights, in which a browser asks whether a script of another origin may send a request. D22.

`config.http.response_headers` adds `Access-Control-Allow-Origin` to every response of the paths that scripts of other
origins may use.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from config.infrastructure import paths

PREFLIGHT_SECONDS = "7200"  # browsers cache the answer for two hours, the maximum of Chromium


def is_preflight(request: HttpRequest) -> bool:
    """Return whether the request is a CORS preflight. Fetch Standard, "CORS-preflight request"."""
    sent = request.META
    return (
        request.method == "OPTIONS"
        and paths.kind_of(request.path_info).is_cross_origin
        and "HTTP_ORIGIN" in sent
        and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in sent
    )


def preflight_response(methods: tuple[str, ...]) -> HttpResponse:
    """Answer a preflight. No rate limit counts preflights. D22.

    Scripts of tracing and products add headers of their own, such as `traceparent`, to each request. The answer names
    `Authorization`, because "*" does not include it (Fetch Standard, "CORS-preflight fetch").
    """
    response = HttpResponse(
        headers={
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": "Authorization, *",
            "Access-Control-Max-Age": PREFLIGHT_SECONDS,
        }
    )
    del response["Content-Type"]  # the answer has no content
    return response
