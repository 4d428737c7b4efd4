"""The headers of responses (D20): those of pages, and those of all others, such as JSON, redirects and refusals."""

from __future__ import annotations

from django.http.response import HttpResponseBase

_COMMON = {
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
DATA_HEADERS = {**_COMMON, "Referrer-Policy": "no-referrer", "Content-Security-Policy": _DATA_POLICY}
PAGE_HEADERS = {**_COMMON, "Referrer-Policy": "same-origin"}  # the policy depends on the settings: config.middleware


def is_page(response: HttpResponseBase) -> bool:
    """Whether a person reads the response. A redirect is no page."""
    is_redirect = 300 <= response.status_code < 400
    return not is_redirect and response.headers.get("Content-Type", "").startswith("text/html")
