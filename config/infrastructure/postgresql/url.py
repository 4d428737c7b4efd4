"""Parses the `DATABASE_URL` of a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Any

import environ
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

FORM = "postgres://user:password@host:port/name"
# The scheme with the account, the hosts, the name with the options.
_PARTS = re.compile(r"([a-z]+://(?:[^/?#]*@)?)([^@/?#]*)(.*)", re.IGNORECASE)


def entry(url: str) -> dict[str, Any]:
    """Django's entry for the database. libpq parses the hosts, one or several, and checks the options.

    Raises ValueError: the URL is malformed. Its text continues the sentence "must be FORM", and contains no password.
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
        "CONN_MAX_AGE": None,  # a connection lives as long as its thread
        "CONN_HEALTH_CHECKS": True,  # reconnect after a restart of the database
    }


def _hosts_and_ports(hosts: str) -> tuple[str, str]:
    """Hosts and ports, each separated by commas."""
    try:
        place = conninfo_to_dict(f"postgres://{hosts}")
    except ProgrammingError:
        raise ValueError from None
    ports = str(place.get("port", ""))
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports.split(",") if port):
        raise ValueError
    return str(place.get("host", "")), ports


def _options(prepare_threshold: int | str = 5, **options: Any) -> dict[str, Any]:
    is_prepared = prepare_threshold != "none"
    if is_prepared and not isinstance(prepare_threshold, int):
        raise ValueError(", where prepare_threshold is a number or none")
    try:
        make_conninfo(**options)
    except ProgrammingError as error:
        raise ValueError(f", with options that PostgreSQL knows ({str(error).strip()})") from None
    return {
        "OPTIONS": {
            # Both or neither: Django's default cursor binds on the client, and then nothing is ever prepared.
            "server_side_binding": True,
            "prepare_threshold": prepare_threshold if is_prepared else None,
            "connect_timeout": 5,
            # Seconds. A server machine that is gone is noticed after 15, while waiting for a result and while sending.
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 15_000,  # milliseconds
            **options,
        },
        # A pooler without prepared statements has no server-side cursors either.
        "DISABLE_SERVER_SIDE_CURSORS": not is_prepared,
    }
