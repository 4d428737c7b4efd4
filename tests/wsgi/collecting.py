"""The service, which answers `/collect` with the number of objects that a full garbage collection examines.

Served by a test only.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from config.wsgi import application as served


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    if environ["PATH_INFO"] != "/collect":
        return served(environ, start_response)
    body = str(len(gc.get_objects())).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
