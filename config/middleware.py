"""Middleware for every request: its line in the log, the headers of its response, and its origin.

It knows the paths of OAuth, and nothing else of it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from config import logs, response_headers
from config.handlers import bad_request
from config.infrastructure.network import client_address
from config.request_path import path_as_sent
from oauth_bridge import paths

access_log = logging.getLogger("config.access")

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class RequestLogMiddleware:
    """Gives the request a random `reference` and the time `received_at`, and logs the request in one line.

    The line holds the route pattern, never the path or the query: a reset link contains a key, a callback a code.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request.received_at = timezone.now()  # type: ignore[attr-defined]
        request.reference = secrets.token_hex(6)  # type: ignore[attr-defined]
        token = logs.reference.set(request.reference)  # type: ignore[attr-defined]
        try:
            response = self.get_response(request)
            match = request.resolver_match
            logs.write(
                access_log,
                "request",
                method=_method(request),
                route=f"/{match.route}" if match else None,
                status=response.status_code,
                duration_ms=round((time.perf_counter() - started) * 1000, 1),
                address=client_address(request),
            )
        finally:
            logs.reference.reset(token)
        return response


def _method(request: HttpRequest) -> str:
    """The method, or "other": an unknown one could be any text."""
    method = request.method or ""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"


class ResponseHeadersMiddleware:
    """Adds the headers that the view did not set: the length of the body, and those of D20; RFC 6749 §5.1.

    A view sets only the CSP directives that differ from `page_policy`; the others are added. It replaces Django's
    CommonMiddleware, of which only the length was used.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.page_policy = {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self'" if settings.BASE_URL == settings.AUTH_URL else f"'self' {settings.BASE_URL}",
            "connect-src": "'self'",
            "font-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        headers = response.headers
        is_page = response_headers.is_page(response)
        present = {name.lower() for name in headers}
        wanted = response_headers.PAGE_HEADERS if is_page else response_headers.DATA_HEADERS
        for name, value in wanted.items():
            if name.lower() not in present:  # `setdefault` costs as much again, for an exception that it catches
                headers[name] = value
        if is_page:
            headers["Content-Security-Policy"] = self._merge_policy(headers.get("Content-Security-Policy", ""))
        if isinstance(response, HttpResponse) and "content-length" not in present:
            headers["Content-Length"] = str(len(response.content))
        return response

    def _merge_policy(self, differing: str) -> str:
        policy = dict(self.page_policy)
        for directive in filter(None, (part.strip() for part in differing.split(";"))):
            name, _, sources = directive.partition(" ")
            policy[name.lower()] = sources.strip()
        return "; ".join(f"{name} {sources}".strip() for name, sources in policy.items())


class OriginMiddleware:
    """Serves the configured origins only, whatever the request headers say. D1.

    A request is secure exactly when `AUTH_URL` is https. Pages, and cookies, exist at the host of `AUTH_URL` only: at
    another host a page redirects there, and everything else is served without cookies. The token operation and user
    info are served without cookies at every host.
    """

    PAGES = (paths.AUTHORIZE, "/accounts", "/admin")
    WITHOUT_COOKIES = (paths.TOKEN, paths.USERINFO)

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        pages = urlsplit(settings.AUTH_URL)
        self.scheme, self.pages_host = pages.scheme, pages.netloc if settings.ORIGINS_ARE_SET else None

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.META["wsgi.url_scheme"] = self.scheme
        try:
            host = request.get_host().lower()
        except DisallowedHost as exception:
            # Called here because Django would show its own page of a DisallowedHost with DEBUG.
            return bad_request(request, exception)
        is_pages_host = self._is_pages_host(host)
        if is_pages_host and request.path_info not in self.WITHOUT_COOKIES:
            request.is_at_pages = True  # type: ignore[attr-defined]  # for config.languages
            return self.get_response(request)
        if not is_pages_host and self._is_page(request.path_info):
            return self._redirect_to_pages(request)
        request.COOKIES = {}
        response = self.get_response(request)
        if isinstance(response, HttpResponse):
            response.cookies.clear()
        return response

    def _is_pages_host(self, host: str) -> bool:
        default_port = ":443" if self.scheme == "https" else ":80"
        return self.pages_host is None or host.removesuffix(default_port) == self.pages_host

    def _is_page(self, path: str) -> bool:
        return path == "/" or any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.PAGES)

    def _redirect_to_pages(self, request: HttpRequest) -> HttpResponse:
        """The same path and query at `AUTH_URL`."""
        if request.method not in ("GET", "HEAD"):
            raise Http404
        location = settings.AUTH_URL + path_as_sent(request)
        # Not HttpResponseRedirect: it refuses addresses longer than 16 kB and rewrites what it is given.
        return HttpResponse(status=302, headers={"Location": location})
