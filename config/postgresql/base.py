"""The database backend that `config.environment` names."""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Error

# A row that somebody holds for longer, a rotation that hangs or a machine that is gone, must not hold up a worker too.
LOCK_TIMEOUT_SECONDS = 5


class DatabaseWrapper(base.DatabaseWrapper):
    """A server that goes away closes its sockets: a connection on which nothing waits to be read is taken as usable.

    Django's own check (`CONN_HEALTH_CHECKS`) asks `SELECT 1` in every request.
    """

    def get_connection_params(self) -> dict[str, Any]:
        """`DATABASE_URL` has the last word: it may hold `?options=…`."""
        return {"options": f"-c lock_timeout={LOCK_TIMEOUT_SECONDS}s", **super().get_connection_params()}

    def is_usable(self) -> bool:
        try:
            socket = self.connection.fileno()
        except Error:
            return False
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        return not waiting.poll(0) or super().is_usable()
