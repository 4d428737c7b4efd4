"""What gunicorn refuses before the application sees it, told like every other failure: in JSON. D19, D20."""

from __future__ import annotations

import json
import sys
import traceback
from http import HTTPStatus
from socket import socket

from gunicorn import util
from gunicorn.http.message import Request

from config.middleware import SecurityHeadersMiddleware
from oauth_bridge.errors import Fault

# Whatever else is wrong with a request is malformed: 501, for a transfer coding nobody knows, would count as our fault.
FAULTS = {414: Fault.LINE_TOO_LONG, 431: Fault.HEADERS_TOO_LARGE, 500: Fault.SERVER_ERROR}


def write_error(connection: socket, status: int, reason: str, message: str) -> None:
    """Stands in for `gunicorn.util.write_error`, whose HTML repeats what was sent."""
    fault = FAULTS.get(status, Fault.BAD_REQUEST)
    body = json.dumps({"error": fault.error, "error_description": fault.describe(reference="-")})
    headers = {
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        "Cache-Control": "no-store",
        "Pragma": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": SecurityHeadersMiddleware.DATA_POLICY,
    }
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "" if _is_head() else body,
    ]
    util.write_nonblock(connection, "\r\n".join(lines).encode())


def _is_head() -> bool:
    """Whether the request that failed is a HEAD. gunicorn hands over no request that it could not read to its end."""
    frames = (frame for frame, _ in traceback.walk_tb(sys.exc_info()[2]))
    values = (value for frame in frames for value in frame.f_locals.values())
    return any(isinstance(value, Request) and value.method == "HEAD" for value in values)
