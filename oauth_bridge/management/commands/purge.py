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

from django.core.management.base import BaseCommand
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
        began, self.rows, self.longest_seconds = time.monotonic(), 0, 0.0
        with catch_signals() as received:
            for batch in purging.batches(timezone.now()):
                self._show(batch)
                time.sleep(batch.seconds * PAUSE_FACTOR)
                if received:
                    name = received[0].name
                    self._end(f"Stopped by {name}. Deleted rows: {self.rows:,}. Run the purge again to go on.")
                    # As in a shell, the exit code is 130 after SIGINT and 143 after SIGTERM.
                    sys.exit(128 + received[0])
            purging.record_finished()
        if told := mails.tell_of_ending_secrets(timezone.now()):
            logger.info("Mails about client secrets that end soon were written.", extra={"secrets": told})
        self._end(f"The purge is finished after {time.monotonic() - began:.0f} s. Deleted rows: {self.rows:,}.")

    def _show(self, batch: Batch) -> None:
        """Update the bar at a terminal. Elsewhere, log a line if the batch deleted rows."""
        self.rows += batch.rows
        self.longest_seconds = max(self.longest_seconds, batch.seconds)
        if self.stdout.isatty():
            bar = "#" * round(batch.done * BAR_CHARACTERS)
            line = f"\r[{bar:.<{BAR_CHARACTERS}}] {batch.done:4.0%}  deleted rows: {self.rows:,}"
            self.stdout.write(line, ending="")
            self.stdout.flush()
        elif batch.rows:
            progress = {"table": batch.table, "rows": batch.rows, "total": self.rows, "done": round(batch.done, 4)}
            logger.info("A batch was deleted.", extra={**progress, "duration_ms": round(batch.seconds * 1000, 1)})

    def _end(self, sentence: str) -> None:
        if self.stdout.isatty():
            self.stdout.write(f"\n{sentence}")
        else:
            extra = {"total": self.rows, "longest_ms": round(self.longest_seconds * 1000, 1)}
            logger.info(sentence, extra=extra)


@contextmanager
def catch_signals() -> Iterator[list[signal.Signals]]:
    """Yield a list of received signals, so that a run can end after its batch. A second signal kills the process."""
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
