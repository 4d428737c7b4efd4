"""The JSON response to a request that gunicorn refuses before the application sees it. D19, D20."""

from __future__ import annotations

import json
import sys
import traceback
from http import HTTPStatus
from socket import socket

from gunicorn.http.message import Request

from config.response_headers import DATA_HEADERS
from oauth_bridge.errors import Fault

# Any other status is answered as 400, also the 501 of an unknown transfer coding: a 5xx would count as our failure.
FAULTS = {414: Fault.LINE_TOO_LONG, 431: Fault.HEADERS_TOO_LARGE, 500: Fault.SERVER_ERROR}


def write_error(connection: socket, status: int, reason: str, message: str) -> None:
    """Replaces `gunicorn.util.write_error`, whose HTML repeats parts of the request."""
    fault = FAULTS.get(status, Fault.BAD_REQUEST)
    body = json.dumps({"error": fault.error, "error_description": fault.describe(reference="-")})
    headers = {
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        **DATA_HEADERS,
        "Pragma": "no-cache",
    }
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "" if _is_head() else body,
    ]
    connection.sendall("\r\n".join(lines).encode())


def _is_head() -> bool:
    """Whether the refused request is a HEAD. gunicorn passes no request that it could not parse to the end."""
    frames = (frame for frame, _ in traceback.walk_tb(sys.exc_info()[2]))
    values = (value for frame in frames for value in frame.f_locals.values())
    return any(isinstance(value, Request) and value.method == "HEAD" for value in values)
