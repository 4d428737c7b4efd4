"""Response headers for security, caches and other origins."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from config.infrastructure import network, paths

GetResponse = Callable[[HttpRequest], HttpResponseBase]

_COMMON = {
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
DATA_HEADERS = {**_COMMON, "Referrer-Policy": "no-referrer", "Content-Security-Policy": _DATA_POLICY}
PAGE_HEADERS = {**_COMMON, "Referrer-Policy": "same-origin"}
# For paths with `paths.Kind.is_cross_origin`. "*" allows no cookies (Fetch, CORS protocol and credentials).
CROSS_ORIGIN_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "WWW-Authenticate, Retry-After, X-Reference",
}


def is_page(response: HttpResponseBase) -> bool:
    is_redirect = 300 <= response.status_code < 400
    return not is_redirect and response.headers.get("Content-Type", "").startswith("text/html")


class ResponseHeadersMiddleware:
    """Adds X-Reference, Content-Length, and headers for security, caches (RFC 6749 §5.1) and other origins."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        pictures = "'self'" if settings.BASE_URL == settings.AUTH_URL else f"'self' {settings.BASE_URL}"
        # For pages whose form leads to an application: Chromium and WebKit apply `form-action` to every redirect after
        # a form, and nobody knows where an application redirects.
        self.policy_without_form_action = (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
            f"img-src {pictures}; base-uri 'none'; frame-ancestors 'none'"
        )
        self.page_policy = f"{self.policy_without_form_action}; form-action 'self'"

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        headers = response.headers
        for name, value in (PAGE_HEADERS if is_page(response) else DATA_HEADERS).items():
            headers.setdefault(name, value)
        if paths.kind_of(request.path_info).is_cross_origin:
            for name, value in CROSS_ORIGIN_HEADERS.items():
                headers[name] = value
        if is_page(response):
            leads_to_application = getattr(response, "leads_to_application", False)
            policy = self.policy_without_form_action if leads_to_application else self.page_policy
            headers["Content-Security-Policy"] = policy
        if "no-store" in headers["Cache-Control"]:  # a cache would return the reference to other clients
            headers["X-Reference"] = network.reference.get()
        if isinstance(response, HttpResponse):
            headers.setdefault("Content-Length", str(len(response.content)))
        return response
