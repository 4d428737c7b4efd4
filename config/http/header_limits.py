"""Limit the length of request headers before a parser reads them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.http.languages import answer_in_language
from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault
from oauth_bridge.error_responses import error_response

# The greatest lengths, in characters. Other headers need no limit, because the time to parse them does not grow with
# their length.
LIMITS = {
    "HTTP_ACCEPT": 2048,
    "HTTP_ACCEPT_ENCODING": 2048,
    "HTTP_ACCEPT_LANGUAGE": 2048,
    "HTTP_AUTHORIZATION": 4096,
    "HTTP_COOKIE": 8192,
    "HTTP_HOST": 300,
    "HTTP_IF_MATCH": 2048,
    "HTTP_IF_MODIFIED_SINCE": 100,
    "HTTP_IF_NONE_MATCH": 2048,
    "HTTP_IF_RANGE": 2048,
    "HTTP_ORIGIN": 2048,
    "HTTP_RANGE": 2048,
    "HTTP_X_FORWARDED_FOR": 1024,
}


class HeaderLimitsMiddleware:
    """Refuses a request with a header above its limit; a request for a file is served without that header.

    The error page loads files, and the requests for these files have the same long header. Moving WhiteNoise before
    this middleware would not suffice, because views serve the pictures. Also, the Host header must be checked before
    any file is served.

    The middleware also removes quoted cookies, which old versions of Python parse in quadratic time (CVE-2024-7592). No
    cookie of the service is quoted.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        headers = request.META
        too_long = [name for name, limit in LIMITS.items() if name in headers and len(headers[name]) > limit]
        for name in too_long:
            del headers[name]  # so that no view, error page or log line parses it
        cookies = headers.get("HTTP_COOKIE", "")
        if '"' in cookies:
            headers["HTTP_COOKIE"] = ";".join(pair for pair in cookies.split(";") if '"' not in pair)
        if too_long and not paths.kind_of(request.path).is_file:
            name = too_long[0]
            shown = name.removeprefix("HTTP_").replace("_", "-").title()
            error = RequestError(SiteFault.HEADER_TOO_LONG, name=shown, limit=LIMITS[name])
            return answer_in_language(request, lambda request: error_response(request, error))
        return self.get_response(request)
