"""`manage.py migrate`: wait for locked tables, then copy pictures from the folder of earlier releases."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, OperationalError

from accounts.pictures import stored_files

ATTEMPTS = 60
PAUSE_SECONDS = 1.0
# PostgreSQL's lock_not_available and deadlock_detected.
LOCKED = ("55P03", "40P01")


class Command(migrate.Command):
    """Runs `migrate` again if PostgreSQL has rolled a migration back because the migration did not get a lock.

    After the migrations, the command copies the pictures in the folder MEDIA_ROOT to the store of pictures, except
    those that the store has. The files stay in the folder, because the previous release needs them.

    Raises CommandError: a table was locked at each attempt, or the store of pictures does not answer.
    """

    def handle(self, *args: Any, **options: Any) -> None:
        self._migrate(*args, **options)
        is_whole = not (options["app_label"] or options["plan"] or options["check_unapplied"])
        if is_whole and options["database"] == DEFAULT_DB_ALIAS:
            try:
                count = sum(1 for _ in stored_files.copy(stored_files.media_folder()))
            except OSError as error:
                raise CommandError(f"The pictures in MEDIA_ROOT could not be copied ({error}).") from None
            if count and options["verbosity"]:
                self.stdout.write(f"{count:,} pictures in MEDIA_ROOT are in the store of PICTURES too.")

    def _migrate(self, *args: Any, **options: Any) -> None:
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
