"""`manage.py migrate`: Django's own, which tries again when requests use a table at the moment it is to change."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError

ATTEMPTS = 60
PAUSE_SECONDS = 1.0
# PostgreSQL's lock_not_available and deadlock_detected.
IS_IN_USE = ("55P03", "40P01")


class Command(migrate.Command):
    """A migration that did not get its locks was rolled back whole, so it can be applied again.

    Raises CommandError: a table stayed in use for all attempts.
    """

    def handle(self, *args: Any, **options: Any) -> None:
        for _ in range(ATTEMPTS):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", None) not in IS_IN_USE:
                    raise
            self.stdout.write("\nA table is in use. Trying again.")
            time.sleep(PAUSE_SECONDS)
        raise CommandError(
            "A table stayed in use, perhaps by a dump or by autovacuum. What is listed as OK is applied; "
            "run manage.py migrate again for the rest."
        )
