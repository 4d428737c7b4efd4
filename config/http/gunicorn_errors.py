"""Send a JSON response to a request that gunicorn refuses before the application receives it. D19, D20."""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from socket import socket
from typing import Any

from gunicorn.http import message as gunicorn_message

from config.http.response_headers import DATA_HEADERS
from config.infrastructure import errors, references
from config.infrastructure.errors import RequestError, SiteFault

# Any other status becomes 400. Even 501 (unknown transfer coding) becomes 400, because a 5xx would count as a failure
# of the service.
FAULTS = {414: SiteFault.LINE_TOO_LONG, 431: SiteFault.HEADERS_TOO_LARGE, 500: SiteFault.SERVER_ERROR}

# `_thread.request` is the request that the thread parses or answers. gunicorn does not pass it to `write_error`.
_thread = threading.local()


class Request(gunicorn_message.Request):
    """gunicorn's request, which `write_error` can read before parsing has finished."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _thread.request = self
        super().__init__(*args, **kwargs)


def write_error(connection: socket, status: int, reason: str, message: str) -> None:
    """Send the JSON response. Replaces `gunicorn.util.write_error`, whose HTML repeats parts of the request."""
    fault, reference = FAULTS.get(status, SiteFault.BAD_REQUEST), references.new()
    error = RequestError(fault)
    token = references.current.set(reference)
    errors.report(error)
    body = json.dumps({"error": fault.error, "error_description": error.description})
    references.current.reset(token)
    headers = {
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        **DATA_HEADERS,
        "X-Reference": reference,
        "Pragma": "no-cache",
    }
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "" if _thread.request.method == "HEAD" else body,
    ]
    connection.sendall("\r\n".join(lines).encode())
