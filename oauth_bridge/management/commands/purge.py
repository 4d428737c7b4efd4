"""`manage.py purge`: delete expired rows, shorten IP addresses, rotate signing keys, tell owners of ending secrets."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from oauth_bridge.applications import mails
from oauth_bridge.management import purging
from oauth_bridge.models import PurgeRun
from oauth_bridge.openid import signing_keys

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.01  # after each batch, for the requests


class Command(BaseCommand):
    help = (
        "Delete expired codes, access tokens, secrets and browser sessions in batches; write the mails about client "
        "secrets that end soon. Logs a line of JSON for each batch. Can be stopped at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        total = 0
        for table, rows in purging.batches(timezone.now()):
            total += rows
            if rows:
                logger.info("A batch was deleted.", extra={"table": table, "rows": rows, "total": total})
            time.sleep(PAUSE_SECONDS)
        signing_keys.tidy(timezone.now())
        PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": timezone.now()})
        if told := mails.tell_of_ending_secrets(timezone.now()):
            logger.info("Mails about client secrets that end soon were written.", extra={"secrets": told})
        logger.info("The purge is finished.", extra={"total": total})
