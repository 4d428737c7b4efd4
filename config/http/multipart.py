"""Refuse a multipart body before Django parses it, except at paths that accept a file.

Python's email parser takes quadratic time for the parameters of a part's header, and Django's CSRF check parses the
body at every path. `accounts.pictures.upload_handler` limits the bodies at the paths that accept a file.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault
from oauth_bridge.error_responses import error_response

MEDIA_TYPE = "multipart/form-data"  # the only multipart type that Django parses


class MultipartMiddleware:
    """Refuses a multipart body with 400 `invalid_request`, as JSON or as a page. D12, D19.

    The middleware ignores the token operation and user info. Their views have no CSRF check, and refuse the media type
    or the method.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method == "POST" and request.content_type == MEDIA_TYPE:
            kind = paths.kind_of(request.path_info)
            if not kind.is_cross_origin and not kind.takes_a_file:
                return error_response(request, RequestError(SiteFault.MEDIA_TYPE, given=MEDIA_TYPE))
        return self.get_response(request)
