"""`manage.py purge`: delete what is past use, in batches, safe beside live traffic. Contract, operator's interface."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper
from django.utils import timezone

from oauth_bridge.storage import purging
from oauth_bridge.storage.purging import Batch

logger = logging.getLogger(__name__)

# After each batch the database is left alone for so many times as long as the batch took.
REST = 4
BAR_WIDTH = 30


class Command(BaseCommand):
    help = (
        "Delete codes, access tokens, secrets, consents and browser sessions that are past use, in batches. Shows how "
        "far it is at a terminal, logs a line of JSON for each batch elsewhere, and can be stopped at any moment."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        report = Bar(self.stdout) if self.stdout.isatty() else Log()
        with stoppable() as stopped_by:
            for batch in purging.batches(timezone.now()):
                report.add(batch)
                time.sleep(batch.seconds * REST)
                if stopped_by:
                    report.stopped(stopped_by[0].name)
                    # As a shell says that a signal ended a command: 130, 143.
                    sys.exit(128 + stopped_by[0])
            purging.finished()
        report.finished()


@contextmanager
def stoppable() -> Iterator[list[signal.Signals]]:
    """Holds SIGINT or SIGTERM once it came, for the run to end after its batch; a second one ends it at once."""
    came: list[signal.Signals] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(signal.Signals(number))
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Log:
    """A line for each batch that found something, and one at the end."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.rows = 0
        self.longest_seconds = 0.0

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.longest_seconds = max(self.longest_seconds, batch.seconds)
        self.tell(batch)

    def finished(self) -> None:
        seconds = time.monotonic() - self.began
        self.close(f"The purge is finished after {seconds:.0f} s. Deleted rows: {self.rows:,}.")

    def stopped(self, by: str) -> None:
        self.close(f"Stopped by {by}. Deleted rows: {self.rows:,}. Run the purge again to go on.")

    def tell(self, batch: Batch) -> None:
        if batch.is_cut_off:
            logger.warning("A statement was cut off and is tried again.", extra={"table": batch.table})
        elif batch.rows:
            told = {"table": batch.table, "rows": batch.rows, "total": self.rows, "done": round(batch.done, 4)}
            logger.info("A batch was deleted.", extra={**told, "duration_ms": round(batch.seconds * 1000, 1)})

    def close(self, sentence: str) -> None:
        logger.info(sentence, extra={"total": self.rows, "longest_ms": round(self.longest_seconds * 1000, 1)})


class Bar(Log):
    """One line of a terminal, drawn anew after each batch."""

    def __init__(self, terminal: OutputWrapper) -> None:
        super().__init__()
        self.terminal = terminal

    def tell(self, batch: Batch) -> None:
        filled = "#" * round(batch.done * BAR_WIDTH)
        line = f"\r[{filled:.<{BAR_WIDTH}}] {batch.done:4.0%}  deleted rows: {self.rows:,}"
        waiting = "trying again" if batch.is_cut_off else ""
        self.terminal.write(f"{line}  {waiting:12}", ending="")
        self.terminal.flush()

    def close(self, sentence: str) -> None:
        self.terminal.write(f"\n{sentence}")
