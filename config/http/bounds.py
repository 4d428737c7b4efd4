"""Bound what Django and Python parse slowly: long headers, quoted cookies, and forms of several parts."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.http.languages import answer_in_language
from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault
from oauth_bridge.error_responses import error_response

_PARSED = (
    *("ACCEPT", "ACCEPT_ENCODING", "ACCEPT_LANGUAGE", "AUTHORIZATION", "HOST", "ORIGIN"),
    *("IF_MATCH", "IF_MODIFIED_SINCE", "IF_NONE_MATCH", "IF_RANGE", "RANGE", "X_FORWARDED_FOR"),
)
# In characters. The time to parse other headers does not grow faster than their length, and a proxy may add long ones.
LIMITS = {**{f"HTTP_{name}": 4096 for name in _PARSED}, "HTTP_COOKIE": 8192}
MULTIPART = "multipart/form-data"  # the only multipart type that Django parses


class BoundsMiddleware:
    """Refuses a request with a long header, and a multipart body at a path that accepts no file. D12, D19.

    A request for a file is served without the long header, because the error page loads files, and their requests have
    the same header. Quoted cookies are removed: no cookie of the service is quoted, and old versions of Python parse
    them in quadratic time (CVE-2024-7592). Django's CSRF check parses the body at every path, and Python's email parser
    takes quadratic time for the headers of a part. The paths that accept a file bound their parts by
    `BoundedUploadHandler`. The token operation and user info have no CSRF check, and refuse the media type themselves.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        headers, kind, error = request.META, paths.kind_of(request.path_info), None
        too_long = [name for name, limit in LIMITS.items() if name in headers and len(headers[name]) > limit]
        for name in too_long:
            del headers[name]  # so that no view, error page or log line parses it
            if not kind.is_file:
                shown = name.removeprefix("HTTP_").replace("_", "-").title()
                error = error or RequestError(SiteFault.HEADER_TOO_LONG, name=shown, limit=LIMITS[name])
        if '"' in (cookies := headers.get("HTTP_COOKIE", "")):
            headers["HTTP_COOKIE"] = ";".join(pair for pair in cookies.split(";") if '"' not in pair)
        is_form_of_parts = request.method == "POST" and request.content_type == MULTIPART
        if is_form_of_parts and not kind.is_cross_origin and not kind.takes_a_file:
            error = error or RequestError(SiteFault.MEDIA_TYPE, given=MULTIPART)
        if error is None:
            return self.get_response(request)
        return answer_in_language(request, lambda request: error_response(request, error))
