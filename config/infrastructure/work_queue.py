"""A queue in a database table, which several processes share without a broker. Each row is tried until it succeeds.

A process claims a row for a time, the lease: it moves the row's `due_at` ahead by the lease. If the process ends during
the work, the row becomes due again after the lease.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.db import Error, close_old_connections, connection, models, transaction
from django.db.models import QuerySet
from django.utils import timezone

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
# The longest time that an ending process waits for the work on its present row. An unfinished row becomes due again.
STOP_SECONDS = 2.0
FIRST_PAUSE = timedelta(seconds=30)


class Leased(models.Model):
    """The columns that `claim` needs."""

    turn = models.PositiveIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(db_index=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


L = TypeVar("L", bound=Leased)


def claim(rows: QuerySet[L], lease: timedelta) -> L | None:
    """Claim the due row with the lowest `turn`, then the earliest `due_at`. Return the row, or None if no row is due.

    No other process gets the row during the `lease`. A row that another process is claiming now is skipped.
    """
    now = timezone.now()
    due = rows.filter(due_at__lte=now).order_by("turn", "due_at")
    if not due.exists():  # on SQLite, the transaction below takes the write lock
        return None
    with transaction.atomic():
        row = due.select_for_update(skip_locked=True).first()
        if row:
            row.due_at, row.attempts = now + lease, row.attempts + 1
            row.save(update_fields=["due_at", "attempts"])
    return row


def pause(attempts: int, longest: timedelta) -> timedelta:
    """Return the pause before the next attempt: FIRST_PAUSE, doubled after each attempt, at most `longest`."""
    return min(FIRST_PAUSE * (1 << min(attempts - 1, 20)), longest)


class Worker(threading.Thread):
    """Calls `work` until it returns False, then waits until `wake` is called or `poll_seconds` have passed.

    While the database does not answer, the worker keeps trying and logs this once. `work` must report other errors
    itself.
    """

    def __init__(self, name: str, work: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._poll_seconds = poll_seconds
        self._woken = threading.Event()
        self._stopping = False

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """End the worker after the present row, and wait at most STOP_SECONDS for its end."""
        self.end()
        self.join(STOP_SECONDS)

    def end(self) -> None:
        """End the worker after the present row."""
        self._stopping = True
        self._woken.set()

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
                    logger.warning(
                        "waiting for the database", extra={"worker": self.name, "error": type(error).__name__}
                    )
                is_failing = True
            except Exception:
                logger.exception("work failed", extra={"worker": self.name})
            if not self._stopping:
                self._woken.wait(self._poll_seconds)
        connection.close()
