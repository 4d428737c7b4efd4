"""The database backend that `DATABASES` names."""

from __future__ import annotations

import re
import select
import sys
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db.backends.postgresql import base, schema
from psycopg import Error

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
    """Django's backend with a health check that runs no statement, and migrations that wait only briefly for locks."""

    SchemaEditorClass = SchemaEditor

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
