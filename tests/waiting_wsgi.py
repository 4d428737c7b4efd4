"""The service with a database that is far away: each request waits a third of a second. Served by a test only."""

from __future__ import annotations

import time
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from config.wsgi import application as served

WAIT_SECONDS = 0.33


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    time.sleep(WAIT_SECONDS)
    return served(environ, start_response)
