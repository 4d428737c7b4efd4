"""Answer 503 to the requests that `config.http.thread_pools` decided to refuse: no thread was free in time. D19."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.infrastructure import paths
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.request_classes import RETRY_AFTER_SECONDS, must_refuse
from oauth_bridge.error_responses import error_response


class OverloadMiddleware:
    """Answers 503 to a request for which no thread was free in time, before the session is read.

    A form with a password is passed to its view, which shows the form again with the typed values.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if must_refuse.get():
            has_password = request.method == "POST" and paths.kind_of(request.path_info).request_class_of_post
            if not has_password:
                return error_response(request, RequestError(SiteFault.OVERLOADED, {"Retry-After": RETRY_AFTER_SECONDS}))
        return self.get_response(request)
