"""The database backend that `DATABASES` names."""

from __future__ import annotations

import select
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import psycopg
from django.db.backends.postgresql import base, schema
from psycopg import Cursor, Error, OperationalError
from psycopg.errors import ConnectionTimeout
from psycopg.pq import Format, TransactionStatus

from config.infrastructure.postgresql.process_name import process_name
from config.infrastructure.postgresql.timeouts import MIGRATION_LOCK_TIMEOUT_MS, answer_seconds, session_timeouts


class Connection(psycopg.Connection[Any]):
    """A connection that is closed if its server does not answer within `answer_seconds`."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout or answer_seconds.get() or None)
        except OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:  # the answer has not arrived
                self.close()
            raise


class Silence:
    """Lets one thread at a time wait for a server that accepts connections but does not answer.

    Other threads fail at once. For a server that SIGSTOP has stopped, the kernel still accepts connections.
    """

    def __init__(self) -> None:
        self._is_silent = False
        self._trying = threading.Lock()

    def connect(self, *args: Any, **params: Any) -> Connection:
        must_try_alone = self._is_silent
        if must_try_alone and not self._trying.acquire(blocking=False):
            raise ConnectionTimeout("The database does not answer, and another thread is waiting for it.")
        try:
            connection = Connection.connect(*args, **params)
        except ConnectionTimeout:
            self._is_silent = True
            raise
        finally:
            if must_try_alone:
                self._trying.release()
        self._is_silent = False
        return connection


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Fails if a table stays locked, because all requests to the table wait while a migration waits for its lock.

    `manage.py migrate` runs the migration again.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with four changes.

    The health check reads the state of the socket instead of sending `SELECT 1` (`is_usable`). A frequent statement
    keeps its cursor (`fetch_all`). A migration waits only briefly for its locks (`SchemaEditor`). The wait for a server
    that does not answer is limited (`Connection`, `Silence`).
    """

    SchemaEditorClass = SchemaEditor
    Database = SimpleNamespace(**{**vars(psycopg), "connect": Silence().connect})

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
