"""The database backend that `DATABASES` names."""

from __future__ import annotations

import re
import select
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db.backends.postgresql import base, schema
from psycopg import Cursor, Error
from psycopg.pq import Format

from config.infrastructure.postgresql.timeouts import session_timeouts

# A migration waits at most this long for a lock, and so do the requests that need the same table. The limit is shorter
# than PostgreSQL's deadlock_timeout (1 s), so that a deadlock makes the migration fail instead of a request.
MIGRATION_LOCK_TIMEOUT_MS = 200


def process_name() -> str:
    """Return `web` or the command of `manage.py`, with the version, such as `sign-in purge 0.2.0`."""
    is_command = Path(sys.argv[0]).name == "manage.py" and len(sys.argv) > 1
    command = sys.argv[1] if is_command and re.fullmatch(r"[a-z-]{1,30}", sys.argv[1]) else "manage.py"
    return f"sign-in {'web' if 'statement_timeout' in session_timeouts else command} {settings.VERSION}"


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Fails if a table stays locked. `manage.py migrate` runs the migration again."""

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with a health check without a statement, and with kept cursors for frequent statements."""

    SchemaEditorClass = SchemaEditor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[str, Cursor[Any]] = {}

    def connect(self) -> None:
        self._kept = {}
        super().connect()

    def fetch_all(self, statement: str, values: Mapping[str, object]) -> list[Any]:
        """Return all rows of the statement. The cursor of the statement is kept as long as the connection.

        A new cursor would look up the adapters of all types again, which is half of the statement's cost in this
        process. The cursor requests results in binary format, which psycopg reads in C. In text format, times would be
        read by Django's loader, which is written in Python.
        """
        self.close_if_health_check_failed()
        self.ensure_connection()
        with self.wrap_database_errors:
            rows: list[Any] = self._cursor_of(statement).execute(statement, values).fetchall()
        return rows

    def _cursor_of(self, statement: str) -> Any:
        # In a transaction that will be rolled back, Django's cursor refuses the statement.
        if self.queries_logged or self.execute_wrappers or self.needs_rollback:
            return self.cursor()
        if statement not in self._kept:
            cursor = self._kept[statement] = self.cursor().cursor  # the cursor of psycopg
            cursor.format = Format.BINARY
        return self._kept[statement]

    def get_connection_params(self) -> dict[str, Any]:
        """Return Django's parameters, with our `options` and `application_name` unless `DATABASE_URL` contains them."""
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in session_timeouts.items())
        return {"options": options, "application_name": process_name(), **super().get_connection_params()}

    def is_usable(self) -> bool:
        """Return whether the connection works. If the server has closed it, its socket has something to read.

        Return False after an error, because prepared statements for a changed table fail permanently on this
        connection.
        """
        if self.errors_occurred:
            return False
        try:
            socket = self.connection.fileno()
        except Error:
            return False
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        return not waiting.poll(0) or super().is_usable()
