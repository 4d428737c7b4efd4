"""A thread that works on the database in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import Error, close_old_connections, connection

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
STOP_SECONDS = 2.0


class Worker(threading.Thread):
    """Calls `work` until it returns False or fails, then waits for `wake` or `poll_seconds`. Repeats until `stop`."""

    def __init__(self, name: str, work: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._poll_seconds = poll_seconds
        self._woken = threading.Event()
        self._stopping = False

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()
        self.join(STOP_SECONDS)

    def run(self) -> None:
        is_failing = False
        while not self._stopping:
            self._woken.clear()
            close_old_connections()  # the database may have closed the connection
            try:
                while not self._stopping and self._work():
                    pass
                is_failing = False
            except Error as error:
                if not is_failing:
                    about = {"worker": self.name, "error": type(error).__name__}
                    logger.warning("waiting for the database", extra=about)
                is_failing = True
            except Exception:
                logger.exception("work failed", extra={"worker": self.name})
            if not self._stopping:
                self._woken.wait(self._poll_seconds)
        connection.close()
