"""Parse the `DATABASE_URL` of a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Any

import environ
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

# Three groups: the scheme with the account, the hosts, the name with the options.
_PARTS = re.compile(r"([a-z]+://(?:[^/?#]*@)?)([^@/?#]*)(.*)", re.IGNORECASE)


def entry(url: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for the URL. libpq parses the hosts and checks the options.

    Raises ValueError: the URL is malformed. The caller appends the text of the error to `FORM`. The text contains no
    password.
    """
    parts = _PARTS.fullmatch(url)
    if parts is None or re.search(r"\s", url):
        raise ValueError
    account, hosts, rest = parts.groups()
    found: dict[str, Any] = environ.Env.db_url_config(f"{account}{rest}")
    host, port = _hosts_and_ports(hosts)
    if not found["NAME"]:
        raise ValueError
    return {
        **found,
        "ENGINE": "config.infrastructure.postgresql",
        "HOST": host or found["HOST"],
        "PORT": port,
        **_options(**found.get("OPTIONS", {})),
        "CONN_MAX_AGE": None,  # a connection is kept as long as its thread runs
        "CONN_HEALTH_CHECKS": True,  # reconnect after a restart of the database
    }


def _hosts_and_ports(hosts: str) -> tuple[str, str]:
    """Return a list of hosts and a list of ports, as texts separated by commas."""
    try:
        parsed = conninfo_to_dict(f"postgres://{hosts}")
    except ProgrammingError:
        raise ValueError from None
    ports = str(parsed.get("port", ""))
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports.split(",") if port):
        raise ValueError
    return str(parsed.get("host", "")), ports


def _options(prepare_threshold: int | str = 5, **options: Any) -> dict[str, Any]:
    prepares_statements = prepare_threshold != "none"
    if prepares_statements and not isinstance(prepare_threshold, int):
        raise ValueError(", where prepare_threshold is a number or none")
    try:
        make_conninfo(**options)
    except ProgrammingError as error:
        raise ValueError(f", with options that PostgreSQL knows ({str(error).strip()})") from None
    return {
        "OPTIONS": {
            # Django's default cursor binds parameters on the client. With such a cursor, psycopg never prepares a
            # statement.
            "server_side_binding": True,
            "prepare_threshold": prepare_threshold if prepares_statements else None,
            "connect_timeout": 2,  # seconds; the smallest value that libpq accepts
            # In seconds. A lost server is detected after 15 seconds, both while waiting for a result and while sending.
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 15_000,  # milliseconds
            **options,
        },
        # A pooler that loses prepared statements between transactions loses server-side cursors too.
        "DISABLE_SERVER_SIDE_CURSORS": not prepares_statements,
    }
