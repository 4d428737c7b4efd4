"""Delete expired rows in batches while the service runs, for `manage.py purge`. Contract, operator's interface.

Each statement reads one range of a table, in the order in which rows are stored. The size of the range therefore bounds
the cost of a statement, even if earlier batches left many deleted rows that are not yet vacuumed. A new run starts
again at the first row.

Only this module, `codes` and `restoring` delete codes and tokens. Of the purged tables, only the table of people is the
target of foreign keys with a database constraint. SQL may therefore delete rows of the other purged tables without
Django's cascades.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.db import OperationalError, connection, models, transaction
from django.utils import timezone

from accounts.models import FailedFactor, OutgoingMail, Session, User
from accounts.profile.deletion import delete_never_confirmed
from config.infrastructure.sql import adapted
from oauth_bridge.activity_models import ActivityCount, ActivityRecord
from oauth_bridge.maintenance import shortening
from oauth_bridge.models import (
    AccessToken,
    ApplicationSecret,
    AuthorizationCode,
    PurgeRun,
    WithdrawnCode,
)
from oauth_bridge.storage import activity_counts, issued_codes, signing_keys, tokens
from oauth_bridge.storage.secret_rotation import EXPIRED_KEPT_FOR

# If a statement takes longer than TARGET_SECONDS, the next range is smaller. A request therefore waits for at most
# about one short statement.
TARGET_SECONDS = 0.005
# A statement that takes longer than STATEMENT_TIMEOUT_MS is canceled and tried again. Possible reasons for such a delay
# are a slow disk and a locked table.
STATEMENT_TIMEOUT_MS = 500
QUERY_CANCELED = "57014"  # SQLSTATE

# The activity counts are kept longer than the records, because they name no person.
COUNTS_KEPT_FOR = timedelta(days=400)

# A sign-up that nobody confirmed is deleted after this time. The time is long enough, because the page that asks for
# the code expires after half an hour.
UNCONFIRMED_KEPT_FOR = timedelta(days=30)


class Table(NamedTuple):
    """A table to purge. A row is deleted when `condition` is true.

    The parameters of `condition` are times: the time of the run minus each entry of `kept_for`. `delete` is set if the
    deletion of a row must cascade, or if the rows need another check. `delete` receives the keys of the rows, deletes
    or shortens the rows, and returns their number.
    """

    model: type[models.Model]
    condition: str
    kept_for: dict[str, timedelta]
    delete: Callable[[list[Any]], int] | None = None

    @property
    def name(self) -> str:
        return self.model._meta.db_table


TABLES = (
    # A redeemed code is the record of a sign-in. The code outlives its token, so that a replay still revokes the token
    # (D13). An unredeemed code is kept as long as a token, so that the answer to a late exchange names the reason. It
    # is kept longer if no worker has recorded its expiry yet.
    Table(AuthorizationCode, "redeemed_at <= %(redeemed)s", {"redeemed": issued_codes.REDEEMED_KEPT_FOR}),
    Table(
        AuthorizationCode,
        "redeemed_at IS NULL AND expires_at <= %(expired)s AND (is_expiry_recorded OR expires_at <= %(unrecorded)s)",
        {"expired": tokens.lifetime(), "unrecorded": activity_counts.UNRECORDED_FOR},
    ),
    # A withdrawn code is kept as long as an unredeemed code.
    Table(WithdrawnCode, "expires_at <= %(expired)s", {"expired": tokens.lifetime()}),
    Table(AccessToken, "expires_at <= %(expired)s", {"expired": timedelta(0)}),
    Table(ApplicationSecret, "expires_at <= %(expired)s", {"expired": EXPIRED_KEPT_FOR}),
    Table(Session, "expire_date <= %(expired)s", {"expired": timedelta(0)}),
    Table(ActivityRecord, "at <= %(expired)s", {"expired": timedelta(days=settings.ACTIVITY_DAYS)}),
    Table(
        ActivityRecord,
        "at <= %(whole)s AND address <> '' AND address NOT LIKE '%%/%%'",
        {"whole": shortening.WHOLE_FOR},
        shortening.shorten,
    ),
    Table(ActivityCount, "hour <= %(expired)s", {"expired": COUNTS_KEPT_FOR}),
    Table(FailedFactor, "expires_at <= %(expired)s", {"expired": timedelta(0)}),
    # `accounts.mail.outbox` deletes expired rows and logs unsent e-mails. The purge finds expired rows only if no
    # process sends e-mails.
    Table(OutgoingMail, "expires_at <= %(expired)s", {"expired": timedelta(days=1)}),
    # Delete a sign-up whose address was never confirmed, because nobody else can use the address while the row exists.
    # Before the first sign-in, only a sign-up stores a language. The condition on `language` therefore keeps the
    # accounts that an operator created. Deactivated accounts are kept too.
    Table(
        User,
        "email_verified_at IS NULL AND last_login IS NULL AND language <> '' AND is_active"
        " AND NOT is_staff AND NOT is_superuser AND created_at <= %(created)s",
        {"created": UNCONFIRMED_KEPT_FOR},
        delete_never_confirmed,
    ),
)


class RangeStatements(NamedTuple):
    """The statements for a range of a table on one kind of database, and the smallest and largest size of a range.

    `bounds` selects the first position and the position after the last one. `select` selects the keys of the rows.
    `position` formats a position for `delete` and `select`.
    """

    bounds: str
    delete: str
    select: str
    position: str
    min_size: int
    max_size: int


RANGE_STATEMENTS = {
    # Positions are pages of 8 kB. A purge skips locked rows, so that no deadlock occurs. The next run deletes these
    # rows.
    "postgresql": RangeStatements(
        "SELECT 0, pg_relation_size('{table}') / current_setting('block_size')::bigint",
        "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table}"
        " WHERE ctid >= %(start)s::tid AND ctid < %(stop)s::tid AND {condition} FOR UPDATE SKIP LOCKED))",
        "SELECT id FROM {table}"
        " WHERE ctid >= %(start)s::tid AND ctid < %(stop)s::tid AND {condition} FOR UPDATE SKIP LOCKED",
        "({},0)",
        min_size=8,
        max_size=512,
    ),
    # Positions are row ids.
    "sqlite": RangeStatements(
        "SELECT coalesce((SELECT min(rowid) FROM {table}), 0), coalesce((SELECT max(rowid) FROM {table}), -1) + 1",
        "DELETE FROM {table} WHERE rowid >= %(start)s AND rowid < %(stop)s AND {condition}",
        "SELECT id FROM {table} WHERE rowid >= %(start)s AND rowid < %(stop)s AND {condition}",
        "{}",
        min_size=100,
        max_size=2_000,
    ),
}


class Batch(NamedTuple):
    """The result of one statement. `done` is the share of all tables that the run has read so far, from 0 to 1.

    A statement that timed out has deleted nothing, so the next statement starts at the same position.
    """

    table: str
    rows: int
    seconds: float
    done: float
    has_timed_out: bool = False


def batches(now: datetime) -> Iterator[Batch]:
    """Purge all tables once. Each batch is one statement in its own transaction."""
    statements = RANGE_STATEMENTS[connection.vendor]
    bounds = [(table, *_bounds(statements, table)) for table in TABLES]
    passed, total = 0, sum(end - start for _, start, end in bounds)
    for table, start, end in bounds:
        size = statements.min_size  # rows of this table may take longer than rows of the previous table
        while start < end:
            stop = min(start + size, end)
            rows, seconds = _timed(partial(_delete, statements, table, start, stop, now))
            if rows is None:
                stop = start
            passed += stop - start
            yield Batch(table.name, rows or 0, seconds, passed / total, has_timed_out=rows is None)
            start, size = stop, _next_size(statements, size, seconds)


def _timed(work: Callable[[], int]) -> tuple[int | None, float]:
    """Do the work in a transaction. Returns the number of rows and the duration in seconds.

    The number of rows is None if a statement was canceled and nothing was done.
    """
    rows: int | None
    began = time.perf_counter()
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL statement_timeout = {STATEMENT_TIMEOUT_MS}")
            began = time.perf_counter()  # excludes the time that SQLite waits for the write lock
            rows = work()
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != QUERY_CANCELED:
            raise
        rows = None
    return rows, time.perf_counter() - began


def record_finished() -> None:
    """Tidy the signing keys and store the time of the complete run.

    `/health/ready` reports the time.
    """
    signing_keys.tidy(timezone.now())
    PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": timezone.now()})


def last_finished() -> datetime | None:
    """Return the time at which the last complete run ended; None before the first one."""
    return PurgeRun.objects.values_list("finished_at", flat=True).first()


def _bounds(statements: RangeStatements, table: Table) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(statements.bounds.format(table=table.name))
        start, end = cursor.fetchone()
    return start, end


def _delete(statements: RangeStatements, table: Table, start: int, stop: int, now: datetime) -> int:
    template = statements.select if table.delete else statements.delete
    statement = template.format(table=table.name, condition=table.condition)
    times = {name: now - kept_for for name, kept_for in table.kept_for.items()}
    positions = {"start": statements.position.format(start), "stop": statements.position.format(stop)}
    with connection.cursor() as cursor:
        cursor.execute(statement, adapted({**times, **positions}))
        if table.delete is None:
            return int(cursor.rowcount)
        keys = [key for (key,) in cursor.fetchall()]
    return table.delete(keys) if keys else 0


def _next_size(statements: RangeStatements, size: int, seconds: float) -> int:
    """Return the size of the next range.

    The size is halved after a statement slower than the target, and doubled after a statement that took less than half
    the target.
    """
    if seconds > TARGET_SECONDS:
        return max(size // 2, statements.min_size)
    return min(size * 2, statements.max_size) if seconds < TARGET_SECONDS / 2 else size
