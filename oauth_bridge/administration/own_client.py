"""The HTTP client of the test sign-in. The client calls this service like an application, and masks secrets."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

SECONDS = 5.0
MOST_BYTES = 64 * 1024
# The test shows only these headers of a response.
SHOWN_HEADERS = ("Content-Type", "Cache-Control", "WWW-Authenticate", "Retry-After", "X-Reference")
SECRETS = frozenset({"code", "client_secret", "code_verifier", "access_token"})

# A process runs only one test at a time, because each test occupies two threads: one sends the requests, the other
# answers them.
one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. If there is no response, `status` is 0. `problem` is a sentence if BASE_URL could not be reached."""

    sent: str
    status: int = 0
    shown: str = ""
    milliseconds: int = 0
    problem: str = ""
    is_local: bool = False
    reference: str = ""
    data: dict[str, Any] = field(default_factory=dict, repr=False)


def ask(method: str, path: str, form: dict[str, str] | None = None, token: str = "") -> Answer:
    """Call the service at BASE_URL. If BASE_URL cannot be reached, call the address BIND with the same `Host` header.

    Follow no redirect, and read at most MOST_BYTES of the body.
    """
    body = urlencode(form or {})
    headers = {"Accept": "application/json"}
    if method == "POST":
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    sent = _shown_request(method, path, form, bool(token))
    base = urlsplit(settings.BASE_URL)
    try:
        return _asked(base.scheme, base.netloc, method, path, body, headers, sent)
    except (OSError, http.client.HTTPException) as error:
        problem = _("%(address)s can’t be reached from the server itself: %(kind)s.") % {
            "address": settings.BASE_URL,
            "kind": type(error).__name__,
        }
    with suppress(OSError, http.client.HTTPException):
        here = _asked("http", settings.BIND, method, path, body, {**headers, "Host": base.netloc}, sent)
        return Answer(sent, here.status, here.shown, here.milliseconds, problem, True, here.reference, here.data)
    return Answer(sent, problem=problem)


def _asked(scheme: str, netloc: str, method: str, path: str, body: str, headers: dict[str, str], sent: str) -> Answer:
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection(netloc, timeout=SECONDS, context=ssl.create_default_context())
        if scheme == "https"
        else http.client.HTTPConnection(netloc, timeout=SECONDS)
    )
    start = time.monotonic()
    try:
        connection.request(method, path, body=body or None, headers=headers)
        response = connection.getresponse()
        content = response.read(MOST_BYTES)
    finally:
        connection.close()
    milliseconds = round((time.monotonic() - start) * 1000)
    data = _parsed(content, response.headers.get_content_type())
    lines = [f"HTTP {response.status} {response.reason}"]
    lines += [f"{name}: {value}" for name in SHOWN_HEADERS if (value := response.headers.get(name))]
    lines += ["", json.dumps(_masked(data), indent=1, ensure_ascii=False) if data else _("(no JSON of this service)")]
    reference = response.headers.get("X-Reference", "")
    return Answer(sent, response.status, "\n".join(lines), milliseconds, reference=reference, data=data)


def _parsed(content: bytes, content_type: str) -> dict[str, Any]:
    """Parse a JSON object. Return an empty dict for any other body, which is not from this service."""
    if content_type != "application/json":
        return {}
    try:
        data = json.loads(content)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _masked(data: dict[str, Any]) -> dict[str, Any]:
    return {name: _mask(str(value)) if name in SECRETS else value for name, value in data.items()}


def _mask(value: str) -> str:
    masked = _("(masked)")
    return f"{value[:4]}… {masked}" if len(value) > 20 else masked


def _shown_request(method: str, path: str, form: dict[str, str] | None, has_token: bool) -> str:
    lines, masked = [f"{method} {settings.BASE_URL}{path}"], _("(masked)")
    if has_token:
        lines.append(f"Authorization: Bearer {masked}")
    if form:
        lines += ["Content-Type: application/x-www-form-urlencoded", ""]
        lines += [f"{name}={masked if name in SECRETS else value}" for name, value in form.items()]
    return "\n".join(lines)
