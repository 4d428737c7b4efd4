"""Bounds on the request headers that something parses, checked before anything parses them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.responses import error_response

# Characters. A header that is not listed is read by nobody, or costs no more for being long.
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
FILES = ("/static/", "/avatars/", "/logos/")


class HeaderLimitsMiddleware:
    """Refuses a header longer than its limit, where files are asked for ignores it, and removes quoted cookies.

    No cookie of the service is quoted, and old versions of Python take quadratic time for one (CVE-2024-7592).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        sent = request.META
        too_long = [name for name, limit in LIMITS.items() if name in sent and len(sent[name]) > limit]
        for name in too_long:
            del sent[name]  # so that no view, error page or log line parses it
        # Files are the same for everybody, and the page that refuses a header needs them.
        if too_long and not request.path.startswith(FILES):
            name = too_long[0]
            shown = name.removeprefix("HTTP_").replace("_", "-").title()
            return error_response(request, RequestError(Fault.HEADER_TOO_LONG, name=shown, limit=LIMITS[name]))
        cookies = sent.get("HTTP_COOKIE", "")
        if '"' in cookies:
            sent["HTTP_COOKIE"] = ";".join(pair for pair in cookies.split(";") if '"' not in pair)
        return self.get_response(request)
