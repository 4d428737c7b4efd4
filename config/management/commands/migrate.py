"""`manage.py migrate`: try again if a migration could not lock a table in PostgreSQL."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError

ATTEMPTS = 60
PAUSE_SECONDS = 1.0
# PostgreSQL's lock_not_available and deadlock_detected.
LOCKED = ("55P03", "40P01")


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        for _ in range(ATTEMPTS):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", None) not in LOCKED:
                    raise
            self.stdout.write("\nA table is in use. Trying again.")
            time.sleep(PAUSE_SECONDS)
        raise CommandError(
            "A table stayed in use, perhaps by a dump or by autovacuum. The migrations listed as OK are applied; "
            "run manage.py migrate again for the others."
        )
