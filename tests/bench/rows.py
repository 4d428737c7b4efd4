"""Millions of people, tokens and codes in PostgreSQL, made inside the database: `python -m tests.bench load`.

Their credentials can be guessed, so they are inserted only where no other people exist.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

DOMAIN = "bench.invalid"
APPLICATIONS = 10
# Rows follow each other by a millisecond from here. No valid row expires during a run; a purge deletes all dead ones.
LIVE_FROM, DEAD_FROM = timedelta(days=30), timedelta(days=-60)

PEOPLE = "accounts_user"
TOKENS = "oauth_bridge_accesstoken"
CODES = "oauth_bridge_authorizationcode"

ADD_PEOPLE = f"""
    INSERT INTO {PEOPLE} (id, email, email_verified_at, nickname, avatar, password, created_at,
                          is_active, is_staff, is_superuser)
    SELECT md5('bench person ' || n)::uuid, 'person-' || n || '@{DOMAIN}', now(), 'Person ' || n, '',
           '!' || repeat(md5(n::text), 3), now(), true, false, false
      FROM generate_series(1, %(people)s::bigint) n
        ON CONFLICT DO NOTHING
"""

ADD_TOKENS = f"""
    INSERT INTO {TOKENS} (id, digest, application_id, user_id, scope, issued_at, expires_at)
    SELECT n, sha256(convert_to('bench-token-' || n, 'UTF8')),
           (%(applications)s::bigint[])[1 + n %% cardinality(%(applications)s::bigint[])],
           md5('bench person ' || 1 + n * 7919 %% %(people)s::bigint)::uuid, 'profile',
           %(first_ends)s::timestamptz + n * interval '1 ms' - interval '1 hour',
           %(first_ends)s::timestamptz + n * interval '1 ms'
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
"""

# Nine of ten are redeemed, as in production; half of the applications send a challenge.
ADD_CODES = f"""
    INSERT INTO {CODES} (id, digest, attempt, application_id, user_id, redirect_uri, scope, code_challenge,
                         issued_at, expires_at, redeemed_at, token_digest)
    SELECT n, sha256(convert_to('bench-code-' || n, 'UTF8')), md5('bench attempt ' || n)::uuid,
           (%(applications)s::bigint[])[1 + n %% cardinality(%(applications)s::bigint[])],
           md5('bench person ' || 1 + n * 7919 %% %(people)s::bigint)::uuid,
           'https://application-' || n %% 10 || '.{DOMAIN}/sign-in/callback', 'profile',
           CASE WHEN n %% 2 = 0 THEN left(md5('a' || n) || md5('b' || n), 43) ELSE '' END,
           ends - interval '10 min', ends,
           CASE WHEN n %% 10 > 0 THEN ends - interval '9 min' END,
           CASE WHEN n %% 10 > 0 THEN sha256(convert_to('bench-token-' || n, 'UTF8')) END
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) n,
           LATERAL (SELECT %(first_ends)s::timestamptz + n * interval '1 ms' AS ends) AS life
"""


Say = Callable[[str], None]


class NotHere(Exception):
    """This database may not be filled."""


def person_id(number: int) -> UUID:
    return UUID(hashlib.md5(f"bench person {number}".encode()).hexdigest())


def refuse_strangers() -> None:
    """Raises NotHere: the database is not PostgreSQL, or has people who are not from the benchmark."""
    if connection.vendor != "postgresql":
        raise NotHere("Rows are made by PostgreSQL itself: set DATABASE_URL to one. This is another database.")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS (SELECT FROM {PEOPLE} WHERE email NOT LIKE '%@{DOMAIN}')")
        if cursor.fetchone()[0]:
            raise NotHere(f"Somebody lives in this database: a person whose address does not end in @{DOMAIN}.")


def fill(people: int, tokens: int = 0, codes: int = 0, *, dead: bool = False, say: Say = lambda text: None) -> None:
    """Insert people up to this number, and so many more tokens and codes. `dead` rows are expired, for a purge.

    Each table is one transaction, so an interrupted one leaves no rows.
    """
    refuse_strangers()
    first_ends = timezone.now() + (DEAD_FROM if dead else LIVE_FROM)
    with _timed(PEOPLE, say), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(ADD_PEOPLE, {"people": people})
    applications = _applications()
    for table, statement, count in ((TOKENS, ADD_TOKENS, tokens), (CODES, ADD_CODES, codes)):
        with _timed(table, say), transaction.atomic(), connection.cursor() as cursor:
            _add(cursor, table, statement, count, people, applications, first_ends)


def settle() -> None:
    """Do what autovacuum would do in the next minutes."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def _add(
    cursor: Any, table: str, statement: str, count: int, people: int, applications: list[int], first_ends: datetime
) -> None:
    cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL maintenance_work_mem = '256MB'")
    cursor.execute(f"SELECT coalesce(max(id), 0) FROM {table}")
    before = cursor.fetchone()[0]  # the number of a row is its key, so that each credential is unique
    with _without_indexes(cursor, table):
        values = {"people": people, "applications": applications, "first_ends": first_ends}
        cursor.execute(statement, {**values, "first": before + 1, "last": before + count})
        cursor.execute(
            f"SELECT setval(name, greatest(%s, nextval(name))) FROM pg_get_serial_sequence('{table}', 'id') AS name",
            [before + count],
        )


@contextmanager
def _without_indexes(cursor: Any, table: str) -> Iterator[None]:
    """Build indexes and check keys once for all rows, which is several times faster than for each row."""
    cursor.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'f') ORDER BY contype DESC",
        [table],
    )
    constraints = cursor.fetchall()
    for name, _ in constraints:
        cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    cursor.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = %s", [table]
    )
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f'DROP INDEX "{name}"')
    yield
    for _, definition in indexes:
        cursor.execute(definition)
    for name, definition in constraints:
        cursor.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')


def _applications() -> list[int]:
    """The keys of all applications; creates more until there are APPLICATIONS."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM oauth_bridge_application")
        for number in range(cursor.fetchone()[0], APPLICATIONS):
            address = f"https://application-{number}.{DOMAIN}/sign-in/callback"
            options = ["--redirect-uri", address, "--json"]
            call_command("application", "create", f"Bench {number}", *options, stdout=io.StringIO())
        cursor.execute("SELECT array_agg(id) FROM oauth_bridge_application")
        keys: list[int] = cursor.fetchone()[0]
    return keys


@contextmanager
def _timed(table: str, say: Say) -> Iterator[None]:
    started = time.monotonic()
    yield
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), pg_size_pretty(pg_total_relation_size(%s)) FROM " + table, [table])
        count, size = cursor.fetchone()
    say(f"{table}: {time.monotonic() - started:.0f} s; now {count:,} rows, {size} with indexes.")
