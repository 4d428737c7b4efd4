"""Middleware that logs each request, bounds its headers and forms, and checks its host."""

from __future__ import annotations

import logging
import re
import time
from http import HTTPStatus
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from config.http.error_handlers import bad_request, host_changed
from config.http.languages import answer_in_language
from config.http.response_headers import GetResponse
from config.infrastructure import errors, events, network, paths
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.events import Event, Member
from oauth_bridge.activity import recording
from oauth_bridge.oauth.authorization import is_of_script
from oauth_bridge.oauth.error_responses import error_response

access_log = logging.getLogger("config.access")

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
# W3C Trace Context §3.2. Later versions only extend the 55 characters of version 00.
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")

PORT = re.compile(r":[0-9]+$")
_PARSED = (
    *("ACCEPT", "ACCEPT_ENCODING", "ACCEPT_LANGUAGE", "AUTHORIZATION", "HOST", "ORIGIN"),
    *("IF_MATCH", "IF_MODIFIED_SINCE", "IF_NONE_MATCH", "IF_RANGE", "RANGE", "X_FORWARDED_FOR"),
)
# In characters. The time to parse other headers does not grow faster than their length, and a proxy may add long ones.
HEADER_LIMITS = {**{f"HTTP_{name}": 4096 for name in _PARSED}, "HTTP_COOKIE": 8192}
MULTIPART = "multipart/form-data"  # the only multipart type that Django parses

NO_ROUTE = "none"  # the route in the metrics for missing paths and static files
READY = "/health/ready"  # to a load balancer, "not ready" is no error


class RequestLogMiddleware:
    """Gives each request a reference. Logs and counts requests and errors. Logs no paths: they may contain secrets."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request.received_at = timezone.now()  # type: ignore[attr-defined]
        token = network.reference.set(network.new_reference())
        address = network.client_address(request)
        network.of_request.set(address)
        known = errors.Subject()
        written: list[tuple[Event, dict[str, Member]]] = []
        errors.of_subject.set(known)
        events.of_request.set(written)
        events.IN_FLIGHT.inc()
        try:
            response = self.get_response(request)
            if response.status_code >= HTTPStatus.BAD_REQUEST and not known.errors and request.path_info != READY:
                errors.report(_unexplained(request, response))
            match, method, status = request.resolver_match, known_method(request), response.status_code
            route = f"/{match.route}" if match else None
            if known.errors:
                recording.note_account_page(request)
            for error in known.errors:
                errors.write(error)
                events.REFUSALS.labels(route or NO_ROUTE, error.fault.error, error.fault.name.lower()).inc()
            if known.errors or written:  # the transactions of the view have ended
                recording.record(request, written)
            seconds = time.perf_counter() - started
            took = {"status": status, "duration_ms": round(seconds * 1000, 1), "address": address}
            access_log.info("request", extra={"method": method, "route": route, **took, **proxy_ids(request)})
            events.ANSWERS.labels(method, route or NO_ROUTE, f"{status // 100}xx").observe(seconds)
        finally:
            events.IN_FLIGHT.dec()
            network.reference.reset(token)
            network.of_request.set("")
            errors.of_subject.set(None)
            events.of_request.set(None)
        return response


def known_method(request: HttpRequest) -> str:
    method = request.method or ""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"


def proxy_ids(request: HttpRequest) -> dict[str, str]:
    """Return the well-formed ids in X-Request-ID and traceparent. Return {} if no trusted proxy sent the request."""
    found: dict[str, str] = {}
    if not network.is_proxy(request.META.get("REMOTE_ADDR", "")):
        return found
    request_id = request.META.get("HTTP_X_REQUEST_ID", "")
    if REQUEST_ID.fullmatch(request_id):
        found["request_id"] = request_id
    if trace := TRACEPARENT.fullmatch(request.META.get("HTTP_TRACEPARENT", "")[:55]):
        found["trace_id"], found["parent_id"] = trace.groups()
    return found


def _unexplained(request: HttpRequest, response: HttpResponseBase) -> RequestError:  # such as Django's 405
    fault = {403: SiteFault.FORBIDDEN, 405: SiteFault.METHOD}.get(response.status_code, SiteFault.BAD_REQUEST)
    return RequestError(fault, method=known_method(request), allow=response.headers.get("Allow", ""))


class BoundsMiddleware:
    """Refuses long headers and needless multipart forms: the time to parse them grows faster than their length."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        headers, kind, error = request.META, paths.kind_of(request.path_info), None
        too_long = [name for name, limit in HEADER_LIMITS.items() if name in headers and len(headers[name]) > limit]
        for name in too_long:
            del headers[name]  # so that no view, error page or log line parses it
            if not kind.is_file:  # the error page loads style sheets and pictures with the same header
                shown = name.removeprefix("HTTP_").replace("_", "-").title()
                error = error or RequestError(SiteFault.HEADER_TOO_LONG, name=shown, limit=HEADER_LIMITS[name])
        # Old versions of Python parse quoted cookies in quadratic time (CVE-2024-7592). The service sets none.
        if '"' in (cookies := headers.get("HTTP_COOKIE", "")):
            headers["HTTP_COOKIE"] = ";".join(pair for pair in cookies.split(";") if '"' not in pair)
        # Django's CSRF check parses a body at every path, and the headers of a part in quadratic time. Operations
        # refuse the media type themselves, and `BoundedUploadHandler` bounds the parts of an upload.
        is_form_of_parts = request.method == "POST" and request.content_type == MULTIPART
        if is_form_of_parts and not kind.is_cross_origin and not kind.takes_a_file:
            error = error or RequestError(SiteFault.MEDIA_TYPE, given=MULTIPART)
        if error is None:
            return self.get_response(request)
        return answer_in_language(request, lambda request: error_response(request, error))


class OriginMiddleware:
    """Redirects pages to AUTH_URL's host if ORIGINS_ARE_SET. Drops cookies at other hosts and cross-origin paths."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        pages = urlsplit(settings.AUTH_URL)
        self.scheme, self.pages_host = pages.scheme, pages.netloc if settings.ORIGINS_ARE_SET else None
        self.default_port = 443 if self.scheme == "https" else 80

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.META["wsgi.url_scheme"] = self.scheme
        kind = paths.kind_of(request.path_info)
        try:
            host = "" if kind.is_for_any_host else request.get_host().lower()
        except DisallowedHost as exception:
            # The handler is called here, because with DEBUG Django would show its own page for DisallowedHost.
            return bad_request(request, exception)
        is_pages_host = self.pages_host is None or host.removesuffix(f":{self.default_port}") == self.pages_host
        if is_pages_host and not kind.is_cross_origin:
            request.is_at_pages = True  # type: ignore[attr-defined]  # for config.http.languages
            return self.get_response(request)
        # A redirect would not help a script, and would leave no record in the activity log.
        if not is_pages_host and kind.is_page and not is_of_script(request):
            if self._would_return(request, host):
                return host_changed(request)
            if request.method not in ("GET", "HEAD"):
                raise Http404
            # HttpResponseRedirect is not used: it refuses addresses above 16 kB and rewrites other addresses.
            return HttpResponse(status=302, headers={"Location": settings.AUTH_URL + paths.path_as_sent(request)})
        request.COOKIES = {}
        response = self.get_response(request)
        if isinstance(response, HttpResponse):
            response.cookies.clear()
        return response

    def _would_return(self, request: HttpRequest, host: str) -> bool:
        """Return whether a proxy changes the Host header, so that a redirect to `AUTH_URL` would lead here again."""
        # Such a proxy drops or replaces the port, or sends the host of `AUTH_URL` as X-Forwarded-Host.
        forwarded = request.META.get("HTTP_X_FORWARDED_HOST", "").partition(",")[0].strip().lower()
        names = {PORT.sub("", each) for each in (host, self.pages_host or "")}
        return forwarded == self.pages_host or (len(names) == 1 and host != urlsplit(settings.BASE_URL).netloc)
