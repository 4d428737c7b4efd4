"""The checks of the database for `manage.py check-deployment`."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from config import health
from config.deployment import upkeep
from config.deployment.findings import Finding, failed, of_clock, ok, skipped, warning
from config.infrastructure.postgresql import timeouts

NEEDS_DATABASE = ("migrations", "purge", "signing_keys")
# Connections for commands, in addition to the workers' connections.
SPARE_CONNECTIONS = 3
SHOWN = 5
# A worker needs one connection for each thread that answers requests. It also needs one connection for each of four
# other threads, which send e-mails, send logout notices, write counts and read metrics.
MORE_OF_A_WORKER = 4
READ = """
    SELECT (SELECT json_object_agg(name, setting) FROM pg_settings
             WHERE name IN ('server_version', 'server_encoding', 'lock_timeout', 'statement_timeout', 'max_connections',
                            'superuser_reserved_connections', 'reserved_connections', 'transaction_read_only')),
           (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
           extract(epoch FROM clock_timestamp())::float, pg_backend_pid()
"""


def findings() -> list[Finding]:
    timeouts.limit_statements()  # the workers have the same limits
    try:
        connection.ensure_connection()
        own = _sqlite() if connection.vendor == "sqlite" else _postgresql()
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        fix = "Is DATABASE_URL right, does PostgreSQL run there, and may this machine and account connect?"
        missing = [skipped(name, "The database can't be used.") for name in NEEDS_DATABASE]
        return [failed("database", f"The database can't be used: {reason}.", fix), *missing]
    found = [_migrations()]
    is_migrated = found[0].status == "ok"
    later = [upkeep.purge(), upkeep.signing_keys()] if is_migrated else []
    return [*own, *found, *(later or [skipped(name, "Migrations are missing.") for name in NEEDS_DATABASE[1:]])]


def _sqlite() -> list[Finding]:
    with transaction.atomic():  # the transaction begins with BEGIN IMMEDIATE, which fails on a read-only file
        connection.cursor().execute("CREATE TABLE check_deployment (a)")
        transaction.set_rollback(True)
    return [ok("database", "SQLite can be written.")]


def _postgresql() -> list[Finding]:
    before = time.time()
    given, role_limit, clock, backend = _row(connection, READ)
    now = (before + time.time()) / 2
    is_pooled = _shares_backend(backend)
    return [
        _itself(given),
        _encoding(given),
        _time_outs(given),
        _prepared_statements(is_pooled),
        _connections(given, role_limit, is_pooled),
        of_clock("clock_database", "the database", clock - now),
    ]


def _row(wrapper: Any, statement: str) -> Any:
    with wrapper.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def _itself(given: dict[str, str]) -> Finding:
    if given["transaction_read_only"] == "on":
        fix = "Name the primary in DATABASE_URL, or several hosts with target_session_attrs=read-write."
        return failed("database", "The database may only be read: it is a standby.", fix)
    return ok("database", f"PostgreSQL {given['server_version']} answers.")


def _encoding(given: dict[str, str]) -> Finding:
    if given["server_encoding"] == "UTF8":
        return ok("database_encoding", "The database is in UTF-8.")
    fix = "Make a database with `createdb --encoding UTF8 --template template0`, and move the rows with pg_dump."
    return failed("database_encoding", f"The database is in {given['server_encoding']}.", fix)


def _time_outs(given: dict[str, str]) -> Finding:
    wrong = [name for name, seconds in timeouts.session_timeouts.items() if int(given[name]) != seconds * 1000]
    if not wrong:
        return ok("database_time_outs", "Statements and waits for locked rows end in time.")
    wanted = ", ".join(f"{name} of {timeouts.session_timeouts[name]} seconds" for name in wrong)
    fix = "A pooler or `options` in DATABASE_URL keeps it from the database. Set it for the role: " + " ".join(
        f"ALTER ROLE … SET {name} = '{timeouts.session_timeouts[name]}s';" for name in wrong
    )
    return warning("database_time_outs", f"A connection has no {wanted}.", fix)


def _shares_backend(backend: int) -> bool:
    """Return whether two open connections share a PostgreSQL process, as they do with a pooler in transaction mode."""
    other = connection.copy()
    try:
        return bool(_row(other, "SELECT pg_backend_pid()")[0] == backend)
    finally:
        other.close()


def _prepared_statements(is_pooled: bool) -> Finding:
    """Check that a pooler does not mix up the prepared statements of two connections."""
    name = "database_pooler"
    if not is_pooled:
        return ok(name, "No pooler in transaction mode is on the way.")
    other = connection.copy()
    try:
        for wrapper in (connection, other):
            for _ in range(8):  # psycopg prepares a statement when it runs for the sixth time
                with wrapper.cursor() as cursor:
                    cursor.execute("SELECT %s::text", ["check-deployment"])
    except DatabaseError:
        connection.close()
        fix = "Add ?prepare_threshold=none to DATABASE_URL, or use PgBouncer 1.21 with max_prepared_statements."
        return failed(name, "The pooler, in transaction mode, loses prepared statements.", fix)
    finally:
        other.close()
    return ok(name, "The pooler, in transaction mode, suits the statements of the service.")


def _connections(given: dict[str, str], role_limit: int, is_pooled: bool) -> Finding:
    needed = settings.WEB_CONCURRENCY * (settings.WEB_THREADS + MORE_OF_A_WORKER) + SPARE_CONNECTIONS
    if is_pooled:
        return skipped("database_connections", f"The pooler decides; the service opens up to {needed}.")
    reserved = sum(int(given.get(name, 0)) for name in ("superuser_reserved_connections", "reserved_connections"))
    free = int(given["max_connections"]) - reserved
    free = free if role_limit < 0 else min(free, role_limit)
    if free >= needed:
        return ok("database_connections", f"The database allows {free} connections, and the service needs {needed}.")
    return warning(
        "database_connections",
        f"The database allows {free} connections, and the service needs {needed}: some requests will get 503.",
        "Raise max_connections of PostgreSQL or the limit of the role, or run fewer workers on this machine.",
    )


def _migrations() -> Finding:
    missing = health.missing_migrations()
    if not missing:
        return ok("migrations", "All migrations are applied.")
    shown = f"{', '.join(missing[:SHOWN])}{', …' if len(missing) > SHOWN else ''}"
    return failed("migrations", f"{len(missing)} migrations are missing: {shown}.", "Run manage.py migrate.")
