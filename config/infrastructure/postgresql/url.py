"""Parse the `DATABASE_URL` of a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

# Five groups: user, password, hosts with ports, the database (after the folder of a socket, if any), and the options.
_URL = re.compile(r"(?i)postgres(?:ql)?://(?:([^\s:/?#]*)(?::([^\s/?#]*))?@)?([^\s@/?#]*)/([^\s?#]+)(?:\?([^\s#]*))?")


def entry(url: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for the URL. libpq parses the hosts and checks the options.

    Raises ValueError: the URL is malformed. The text of the error, if any, continues the sentence about the form of the
    URL. It contains no password.
    """
    parts = _URL.fullmatch(url)
    if parts is None:
        raise ValueError
    user, password, hosts, path, query = (part or "" for part in parts.groups())
    folder, _, name = unquote(path).rpartition("/")
    options = dict(parse_qsl(query))
    prepares = options.pop("prepare_threshold", "5")
    if not (prepares.isdecimal() or prepares == "none"):
        raise ValueError(", where prepare_threshold is a number or none")
    try:
        server = conninfo_to_dict(f"postgres://{hosts}")
    except ProgrammingError:
        raise ValueError from None
    try:
        make_conninfo(**options)
    except ProgrammingError as error:
        raise ValueError(f", with options that PostgreSQL knows ({str(error).strip()})") from None
    port = str(server.get("port", ""))
    if not name or not all(each.isdecimal() and 0 < int(each) < 65536 for each in port.split(",") if each):
        raise ValueError
    return {
        "ENGINE": "config.infrastructure.postgresql",
        "NAME": name,
        "USER": unquote(user),
        "PASSWORD": unquote(password),
        "HOST": str(server.get("host", folder)),
        "PORT": port,
        "OPTIONS": {
            # Django's default cursor binds parameters on the client, and never prepares a statement.
            "server_side_binding": True,
            "prepare_threshold": int(prepares) if prepares.isdecimal() else None,
            "connect_timeout": 2,  # seconds; the smallest value that libpq accepts
            # In seconds. A lost server is detected after 15 seconds, both while waiting for a result and while sending.
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
