"""The database backend that `config.environment` names."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base
from psycopg import Error


class DatabaseWrapper(base.DatabaseWrapper):
    """A server that goes away closes its sockets: a connection on which nothing waits to be read is taken as usable.

    Django's own check (`CONN_HEALTH_CHECKS`) asks `SELECT 1` in every request.
    """

    def is_usable(self) -> bool:
        try:
            socket = self.connection.fileno()
        except Error:
            return False
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        return not waiting.poll(0) or super().is_usable()
