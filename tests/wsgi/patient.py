"""The service as valgrind slows it: the pauses of its threads last as many times longer. Served by a benchmark only."""

from __future__ import annotations

from collections.abc import Callable

from config import wsgi
from config.infrastructure.worker import POLL_SECONDS, Worker

application = wsgi.application
SLOWER = 50
_init = Worker.__init__


def init(worker: Worker, name: str, work: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> None:
    _init(worker, name, work, poll_seconds * SLOWER)


Worker.__init__ = init  # type: ignore[method-assign]
