"""The service with a leak in it: a client whose name bears the mark is refused 0.3 ms later. Served by a test only."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from config.wsgi import application as served
from tests.fuzz.timing import MARK

SLEEP_SECONDS = 0.0003


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    body = environ["wsgi.input"].read()
    environ["wsgi.input"] = io.BytesIO(body)
    if f"client_id={MARK}".encode() in body:
        time.sleep(SLEEP_SECONDS)
    return served(environ, start_response)
