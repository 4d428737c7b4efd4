"""The service by a clock that a test sets: by as many seconds as stand in the file CLOCK. Served by a test only."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import time_machine

from config import wsgi

clock = time_machine.travel(datetime.now(UTC), tick=True).start()
lock = threading.Lock()
shifted = 0.0


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    global shifted
    with lock:
        told = float(Path(os.environ["CLOCK"]).read_text(encoding="ascii"))
        clock.shift(timedelta(seconds=told - shifted))
        shifted = told
    return wsgi.application(environ, start_response)
