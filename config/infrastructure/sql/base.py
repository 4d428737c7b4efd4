"""Django's PostgreSQL backend with time limits, reused cursors and a cheap health check."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qsl

from django.conf import settings
from django.db.backends.postgresql import base, schema
from psycopg import Cursor, Error, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format

# A statement fails if it waits longer than this for a lock, such as the lock of a crashed client.
LOCK_TIMEOUT_SECONDS = 5
# These limits apply to requests. In commands, a statement has no limit, because a migration may take hours.
STATEMENT_TIMEOUT_SECONDS = 10
REQUEST_LOCK_TIMEOUT_SECONDS = 2
session_timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}
# A migration waits at most this long for a lock, and so do the requests that need the same table. The limit is shorter
# than PostgreSQL's deadlock_timeout (1 s), so that a deadlock makes the migration fail instead of a request.
MIGRATION_LOCK_TIMEOUT_MS = 200


def limit_statements() -> None:
    """Limit the time of statements and lock waits in a server process. Call this before connecting to the database."""
    session_timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
    session_timeouts["lock_timeout"] = REQUEST_LOCK_TIMEOUT_SECONDS


def database_of(url: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for a PostgreSQL URL. Raises ValueError if the URL or an option is invalid."""
    # The texts of the errors continue a sentence of the caller, and contain no password.
    place, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    prepares = options.pop("prepare_threshold", "5")
    if not (prepares.isdecimal() or prepares == "none"):
        raise ValueError(", where prepare_threshold is a number or none")
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(f"postgres{place[place.index(':') :]}").items()}
    except (ProgrammingError, UnicodeError):
        raise ValueError from None
    # A folder before the name contains the socket.
    folder, _, name = given.get("dbname", "").rpartition("/")
    host, ports = given.get("host", folder), given.get("port", "")
    if not name or "@" in host + name or (folder and host != folder):  # characters that are not percent-encoded
        raise ValueError
    if not all(each.isdecimal() and 0 < int(each) < 65536 for each in ports.split(",") if each):
        raise ValueError
    try:
        make_conninfo(**options)
    except ProgrammingError as error:
        raise ValueError(f", with options that PostgreSQL knows ({str(error).strip()})") from None
    return {
        "ENGINE": "config.infrastructure.sql",
        "NAME": name,
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": host,
        "PORT": ports,
        "OPTIONS": {
            # Django's default cursor binds parameters on the client, and never prepares a statement.
            "server_side_binding": True,
            "prepare_threshold": int(prepares) if prepares.isdecimal() else None,
            "connect_timeout": 2,  # seconds; the smallest value that libpq accepts
            # A lost server is detected after 15 seconds, both while waiting for a result and while sending.
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 15_000,  # milliseconds
            **options,
        },
        "CONN_MAX_AGE": None,  # a connection is kept as long as its thread runs
        "CONN_HEALTH_CHECKS": True,  # reconnect after a restart of the database
        # A pooler that loses prepared statements between transactions loses server-side cursors too.
        "DISABLE_SERVER_SIDE_CURSORS": prepares == "none",
    }


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Makes an atomic migration fail if a table stays locked. `manage.py migrate` repeats such a migration."""

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            self.execute(f"SET LOCAL lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[str, Cursor[Any]] = {}

    def connect(self) -> None:
        self._kept = {}
        super().connect()

    def fetch_all(self, statement: str, values: Mapping[str, object]) -> list[Any]:
        """Return all rows. Cursors are reused, because a new cursor would look up the adapters of all types."""
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
            cursor.format = Format.BINARY  # which psycopg reads in C
        return self._kept[statement]

    def get_connection_params(self) -> dict[str, Any]:
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in session_timeouts.items())
        own = {"options": options, "application_name": f"sign-in {settings.VERSION}"}
        return own | super().get_connection_params()

    def is_usable(self) -> bool:
        """Return whether the connection works. Send a query only if the socket has unread input."""
        if self.errors_occurred:  # a prepared statement for a changed table would fail for ever on the connection
            return False
        try:
            socket = self.connection.fileno()
        except Error:
            return False
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        return not waiting.poll(0) or super().is_usable()
