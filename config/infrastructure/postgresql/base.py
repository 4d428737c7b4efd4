"""The database backend that `config.environment` names."""

from __future__ import annotations

import select
from typing import Any, Self

from django.db.backends.postgresql import base, schema
from django.db.backends.utils import CursorWrapper
from psycopg import Error

# A row that somebody holds for longer, a rotation that hangs or a machine that is gone, must not hold up a worker too.
LOCK_TIMEOUT_SECONDS = 5
# For requests (config.wsgi): a command may take as long as it takes.
STATEMENT_TIMEOUT_SECONDS = 10
timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}
# Shorter than PostgreSQL's deadlock_timeout (1 s): the migration gives up, and a request is never the victim.
MIGRATION_LOCK_TIMEOUT_MS = 500


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Changes a table only if it gets the lock at once: while it waits, every request to that table waits behind it.

    `manage.py migrate` tries again.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own with three differences, two of them for statements that run in every request.

    A server that goes away closes its sockets: a connection on which nothing waits to be read is taken as usable, where
    `CONN_HEALTH_CHECKS` asks `SELECT 1`. A cursor can be kept for a statement (`kept_cursor`).
    And a migration does not wait for its locks (`SchemaEditor`).
    """

    SchemaEditorClass = SchemaEditor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[str, CursorWrapper] = {}

    def connect(self) -> None:
        self._kept = {}
        super().connect()

    def kept_cursor(self, statement: str) -> CursorWrapper:
        """A cursor for this statement alone, as long-lived as the connection; not to be closed.

        A new one has to find out each time how values get in and out, which is half of what the statement costs here.
        """
        self.close_if_health_check_failed()
        self.ensure_connection()
        if self.queries_logged:
            return self.cursor()
        if statement not in self._kept:
            self._kept[statement] = self.cursor()
        return self._kept[statement]

    def get_connection_params(self) -> dict[str, Any]:
        """`DATABASE_URL` has the last word: it may hold `?options=…`."""
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in timeouts.items())
        return {"options": options, **super().get_connection_params()}

    def is_usable(self) -> bool:
        """Not after an error: a prepared statement whose table was changed fails as long as its connection lives."""
        if self.errors_occurred:
            return False
        try:
            socket = self.connection.fileno()
        except Error:
            return False
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        return not waiting.poll(0) or super().is_usable()
