"""What every request passes: its log line, the headers of its answer, and the origin it may be answered at.

Nothing here knows OAuth beyond the names of paths.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from config import logs
from config.infrastructure.network import client_address

access_log = logging.getLogger("config.access")

type_of_handler = Callable[[HttpRequest], HttpResponseBase]


class RequestLogMiddleware:
    """Gives the request a `reference` of our own making and writes its one line in the log.

    The line holds the route pattern, never the path or the query: a reset link holds a key, a callback a code.
    """

    def __init__(self, get_response: type_of_handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request.reference = secrets.token_hex(6)  # type: ignore[attr-defined]
        token = logs.reference.set(request.reference)  # type: ignore[attr-defined]
        try:
            response = self.get_response(request)
            match = request.resolver_match
            access_log.info(
                "request",
                extra={
                    "method": _method(request),
                    "route": f"/{match.route}" if match else None,
                    "status": response.status_code,
                    "duration_ms": round((time.perf_counter() - started) * 1000, 1),
                    "address": client_address(request),
                },
            )
        finally:
            logs.reference.reset(token)
        return response


def _method(request: HttpRequest) -> str:
    """The method, unless the client made one up: that text is his, not ours to log."""
    method = request.method or ""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"


class SecurityHeadersMiddleware:
    """Completes what the view left out. D20; RFC 6749 §5.1.

    A view that needs other CSP directives sets only those that differ; the rest comes from the base policy.
    """

    PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
    DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"

    def __init__(self, get_response: type_of_handler) -> None:
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
        is_page = headers.get("Content-Type", "").startswith("text/html")
        is_redirect = 300 <= response.status_code < 400
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("Referrer-Policy", "same-origin" if is_page and not is_redirect else "no-referrer")
        headers.setdefault("X-Frame-Options", "DENY")
        headers.setdefault("X-Content-Type-Options", "nosniff")
        headers.setdefault("Permissions-Policy", self.PERMISSIONS)
        if is_page and not is_redirect:
            headers["Content-Security-Policy"] = self._merged(headers.get("Content-Security-Policy", ""))
        else:
            headers.setdefault("Content-Security-Policy", self.DATA_POLICY)
        return response

    def _merged(self, differing: str) -> str:
        policy = dict(self.page_policy)
        for directive in filter(None, (part.strip() for part in differing.split(";"))):
            name, _, sources = directive.partition(" ")
            policy[name.lower()] = sources.strip()
        return "; ".join(f"{name} {sources}".strip() for name, sources in policy.items())


class OriginMiddleware:
    """Answers at the configured origins only, whatever the headers say. D1.

    A request is secure exactly when `AUTH_URL` is https. Pages for people, and cookies, exist at the host of it only:
    anywhere else a page is found there and the rest is answered without cookies.
    The site's handler of 400 answers for a host that is not served, also where DEBUG would show Django's own page.
    """

    PEOPLE = ("/oauth/authorize", "/accounts", "/admin")

    def __init__(self, get_response: type_of_handler) -> None:
        self.get_response = get_response
        # By name, as in config.urls: config.refusals imports this module before there are models.
        self.bad_request: Callable[..., HttpResponseBase] = import_string("config.handlers.bad_request")
        pages = urlsplit(settings.AUTH_URL)
        self.scheme, self.pages_host = pages.scheme, pages.netloc if settings.ORIGINS_ARE_SET else None

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.META["wsgi.url_scheme"] = self.scheme
        try:
            host = request.get_host().lower()
        except DisallowedHost as exception:
            return self.bad_request(request, exception)
        if self.pages_host is None or self._is_at_pages(host):
            return self.get_response(request)
        request.COOKIES = {}
        if self._is_for_people(request.path_info):
            return self._to_pages(request)
        response = self.get_response(request)
        if isinstance(response, HttpResponse):
            response.cookies.clear()
        return response

    def _is_at_pages(self, host: str) -> bool:
        default_port = ":443" if self.scheme == "https" else ":80"
        return host.removesuffix(default_port) == self.pages_host

    def _is_for_people(self, path: str) -> bool:
        return path == "/" or any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.PEOPLE)

    def _to_pages(self, request: HttpRequest) -> HttpResponse:
        """The same path and query at `AUTH_URL`, with the query's own spelling kept: it may hold a `state` (D5)."""
        if request.method not in ("GET", "HEAD"):
            raise Http404
        location = settings.AUTH_URL + quote(request.path, safe="/!$&'()*+,;=:@-._~")
        if query := request.META.get("QUERY_STRING", ""):
            location += "?" + quote(query.encode("latin-1"), safe="!$&'()*+,;=:@/?%-._~[]")
        # Not HttpResponseRedirect: it refuses addresses longer than 16 kB and rewrites what it is given.
        return HttpResponse(status=302, headers={"Location": location})
