"""`manage.py purge`: delete expired rows in batches while the service runs. Contract, operator's interface."""

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

from oauth_bridge.applications import mails
from oauth_bridge.management import purging
from oauth_bridge.management.purging import Batch

logger = logging.getLogger(__name__)

# The pause after a batch, as a multiple of the time that the batch took.
PAUSE_FACTOR = 4
BAR_CHARACTERS = 30


class Command(BaseCommand):
    help = (
        "Delete expired codes, access tokens, secrets and browser sessions in batches; write the mails about client "
        "secrets that end soon. Shows a progress bar at a terminal, otherwise logs a line of JSON for each batch. Can "
        "be stopped at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        report = ProgressBar(self.stdout) if self.stdout.isatty() else ProgressLog()
        with catch_signals() as received:
            for batch in purging.batches(timezone.now()):
                report.add(batch)
                time.sleep(batch.seconds * PAUSE_FACTOR)
                if received:
                    report.stopped(received[0].name)
                    # As in a shell, the exit code is 130 after SIGINT and 143 after SIGTERM.
                    sys.exit(128 + received[0])
            purging.record_finished()
        if told := mails.tell_of_ending_secrets(timezone.now()):
            logger.info("Mails about client secrets that end soon were written.", extra={"secrets": told})
        report.finished()


@contextmanager
def catch_signals() -> Iterator[list[signal.Signals]]:
    """Yield a list of received signals, so that a run can end after its batch. A second signal kills the process.

    The signals are SIGINT and SIGTERM.
    """
    received: list[signal.Signals] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        signal.signal(number, signal.SIG_DFL)

    previous = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class ProgressLog:
    """Log a line for each batch that deleted rows, and a line at the end."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.rows = 0
        self.longest_seconds = 0.0

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.longest_seconds = max(self.longest_seconds, batch.seconds)
        self.show(batch)

    def finished(self) -> None:
        seconds = time.monotonic() - self.began
        self.summarize(f"The purge is finished after {seconds:.0f} s. Deleted rows: {self.rows:,}.")

    def stopped(self, by: str) -> None:
        self.summarize(f"Stopped by {by}. Deleted rows: {self.rows:,}. Run the purge again to go on.")

    def show(self, batch: Batch) -> None:
        if batch.has_timed_out:
            logger.warning("A statement timed out and is tried again.", extra={"table": batch.table})
        elif batch.rows:
            progress = {"table": batch.table, "rows": batch.rows, "total": self.rows, "done": round(batch.done, 4)}
            logger.info("A batch was deleted.", extra={**progress, "duration_ms": round(batch.seconds * 1000, 1)})

    def summarize(self, sentence: str) -> None:
        logger.info(sentence, extra={"total": self.rows, "longest_ms": round(self.longest_seconds * 1000, 1)})


class ProgressBar(ProgressLog):
    """Show the progress in one line of a terminal, and update the line after each batch."""

    def __init__(self, terminal: OutputWrapper) -> None:
        super().__init__()
        self.terminal = terminal

    def show(self, batch: Batch) -> None:
        filled = "#" * round(batch.done * BAR_CHARACTERS)
        line = f"\r[{filled:.<{BAR_CHARACTERS}}] {batch.done:4.0%}  deleted rows: {self.rows:,}"
        waiting = "trying again" if batch.has_timed_out else ""
        self.terminal.write(f"{line}  {waiting:12}", ending="")
        self.terminal.flush()

    def summarize(self, sentence: str) -> None:
        self.terminal.write(f"\n{sentence}")
