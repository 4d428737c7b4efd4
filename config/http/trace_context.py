"""The ids that a proxy adds to a request, for the log: `X-Request-ID` and `traceparent` (W3C Trace Context §3.2)."""

from __future__ import annotations

import re

from django.http import HttpRequest

from config.infrastructure.network import is_from_proxy

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
TRACEPARENT_LENGTH = 55  # the length of version 00, which later versions only extend


def of(request: HttpRequest) -> dict[str, str]:
    """Return the well-formed ids from a proxy in `TRUSTED_PROXIES`: `request_id`, `trace_id`, `parent_id`."""
    found: dict[str, str] = {}
    if not is_from_proxy(request):
        return found
    request_id = request.META.get("HTTP_X_REQUEST_ID", "")
    if REQUEST_ID.fullmatch(request_id):
        found["request_id"] = request_id
    if trace := TRACEPARENT.fullmatch(request.META.get("HTTP_TRACEPARENT", "")[:TRACEPARENT_LENGTH]):
        found["trace_id"], found["parent_id"] = trace.groups()
    return found
