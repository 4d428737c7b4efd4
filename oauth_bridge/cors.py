"""CORS preflights: a browser asks whether a script of another origin may send its request. D22.

`config.http.response_headers` adds `Access-Control-Allow-Origin` to every response of these paths.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from config.infrastructure import paths

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
