"""`manage.py purge`: delete expired rows in batches while the service runs."""

from __future__ import annotations

import logging
import signal
import time
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from oauth_bridge.applications import mails
from oauth_bridge.management import purging

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.01  # after each batch, for the requests


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class Command(BaseCommand):
    help = (
        "Delete expired codes, access tokens, secrets and browser sessions in batches; write the mails about client "
        "secrets that end soon. Logs a line of JSON for each batch. Can be stopped at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        total, former = 0, signal.signal(signal.SIGTERM, _exit)
        try:
            for table, rows in purging.batches(timezone.now()):
                total += rows
                if rows:
                    logger.info("A batch was deleted.", extra={"table": table, "rows": rows, "total": total})
                time.sleep(PAUSE_SECONDS)
        except (KeyboardInterrupt, SystemExit):
            logger.info("The purge was stopped. Run it again to go on.", extra={"total": total})
            raise
        finally:
            signal.signal(signal.SIGTERM, former)
        purging.record_finished()
        if told := mails.tell_of_ending_secrets(timezone.now()):
            logger.info("Mails about client secrets that end soon were written.", extra={"secrets": told})
        logger.info("The purge is finished.", extra={"total": total})
