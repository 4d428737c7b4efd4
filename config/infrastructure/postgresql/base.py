"""The database backend that `DATABASES` names."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any, Self

from django.db.backends.postgresql import base, schema
from psycopg import Cursor, Error
from psycopg.pq import Format

from config.infrastructure.postgresql.process_name import process_name
from config.infrastructure.postgresql.timeouts import MIGRATION_LOCK_TIMEOUT_MS, session_timeouts


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Fails when a table stays locked: while a migration waits for its lock, all requests to the table wait behind it.

    `manage.py migrate` tries again.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with three changes.

    The health check reads the state of the socket instead of sending `SELECT 1` (`is_usable`). A frequent statement
    keeps its cursor (`fetch_all`). A migration waits only briefly for its locks (`SchemaEditor`).
    """

    SchemaEditorClass = SchemaEditor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[str, Cursor[Any]] = {}

    def connect(self) -> None:
        self._kept = {}
        super().connect()

    def fetch_all(self, statement: str, values: Mapping[str, object]) -> list[Any]:
        """All rows of the statement. Its cursor is kept as long as the connection.

        A new cursor looks up the adapters of all types again, which is half of the statement's cost in this process.
        Binary results are read by psycopg's loaders in C; Django's loader of times in text format is written in Python.
        """
        self.close_if_health_check_failed()
        self.ensure_connection()
        with self.wrap_database_errors:
            rows: list[Any] = self._cursor_of(statement).execute(statement, values).fetchall()
        return rows

    def _cursor_of(self, statement: str) -> Any:
        # Django's own cursor refuses a statement in a transaction that will be rolled back.
        if self.queries_logged or self.execute_wrappers or self.needs_rollback:
            return self.cursor()
        if statement not in self._kept:
            cursor = self._kept[statement] = self.cursor().cursor  # psycopg's own
            cursor.format = Format.BINARY
        return self._kept[statement]

    def get_connection_params(self) -> dict[str, Any]:
        """`options` and `application_name` in `DATABASE_URL` replace ours."""
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in session_timeouts.items())
        return {"options": options, "application_name": process_name(), **super().get_connection_params()}

    def is_usable(self) -> bool:
        """Whether the connection works. While its socket has nothing to read, the server has not closed it.

        False after an error: once a table was changed, a prepared statement for it fails on its connection for good.
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
