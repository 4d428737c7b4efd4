"""Delete what is past use, one window of a table after the other, beside live traffic. Contract, operator's interface.

Beside `codes` and `restoring` the only place that takes codes and tokens away. No row refers to a row of these tables,
so deleting by hand leaves out no cascade. A window is a stretch of the table as it is stored: a statement is bounded by
what it looks at, whatever was deleted before it and has not been vacuumed yet, and a run that was stopped begins again
at the front.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import OperationalError, connection, models, transaction
from django.utils import timezone

from accounts.models import Session
from config.infrastructure.sql import adapted
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode, Consent, PurgeRun
from oauth_bridge.storage import tokens
from oauth_bridge.storage.client_secrets import EXPIRED_KEPT_FOR

# How long a statement may take before the next one looks at less. Live requests wait for about as long at worst.
LONGEST_SECONDS = 0.005
# What takes so much longer, because the disk stalls or somebody has locked the table, is cut off and tried again.
CUT_OFF_MS = 500
CUT_OFF = "57014"  # query_canceled


class Table(NamedTuple):
    """Rows of `model` are past use once `column` is further back than `kept`."""

    model: type[models.Model]
    column: str
    kept: timedelta

    @property
    def name(self) -> str:
        return self.model._meta.db_table


TABLES = (
    # A spent code is kept as long as the token it led to can live, so that a replay can still revoke that token (D13).
    Table(AuthorizationCode, "expires_at", tokens.lifetime()),
    Table(AccessToken, "expires_at", timedelta(0)),
    Table(ApplicationSecret, "expires_at", EXPIRED_KEPT_FOR),
    Table(Consent, "expires_at", timedelta(0)),
    Table(Session, "expire_date", timedelta(0)),
)


class Windows(NamedTuple):
    """How a database is told of a stretch of a table: its first and last place, and what is deleted in between."""

    extent: str
    delete: str
    place: str
    narrowest: int
    widest: int


WINDOWS = {
    # Pages of 8 kB. What somebody else has locked stays for the next run, so this never waits and never deadlocks.
    "postgresql": Windows(
        "SELECT 0, pg_relation_size('{table}') / current_setting('block_size')::bigint",
        "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table}"
        " WHERE ctid >= %s::tid AND ctid < %s::tid AND {column} <= %s FOR UPDATE SKIP LOCKED))",
        "({},0)",
        narrowest=8,
        widest=512,
    ),
    # Rows.
    "sqlite": Windows(
        "SELECT coalesce((SELECT min(rowid) FROM {table}), 0), coalesce((SELECT max(rowid) FROM {table}), -1) + 1",
        "DELETE FROM {table} WHERE rowid >= %s AND rowid < %s AND {column} <= %s",
        "{}",
        narrowest=100,
        widest=2_000,
    ),
}


class Batch(NamedTuple):
    """What one statement has deleted, how long it took, and how much of all tables has been gone through (0 to 1).

    One that was cut off has deleted nothing and gone no further.
    """

    table: str
    rows: int
    seconds: float
    done: float
    is_cut_off: bool = False


def batches(now: datetime) -> Iterator[Batch]:
    """Go through all tables once, a statement at a time, each a transaction of its own."""
    windows = WINDOWS[connection.vendor]
    extents = [(table, *_extent(windows, table)) for table in TABLES]
    passed, total = 0, sum(end - start for _, start, end in extents)
    width = windows.narrowest
    for table, start, end in extents:
        while start < end:
            stop = min(start + width, end)
            try:
                with transaction.atomic():
                    began = time.perf_counter()  # SQLite has had its turn by now: waiting is not work
                    rows = _delete(windows, table, start, stop, now)
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", None) != CUT_OFF:
                    raise
                rows, stop = 0, start
            seconds = time.perf_counter() - began
            passed += stop - start
            yield Batch(table.name, rows, seconds, passed / total, is_cut_off=stop == start)
            start, width = stop, _fitting(windows, width, seconds)


def finished() -> None:
    """Remember that a run went through everything just now; `/health/ready` tells how long ago that is."""
    PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": timezone.now()})


def last_finished() -> datetime | None:
    return PurgeRun.objects.values_list("finished_at", flat=True).first()


def _extent(windows: Windows, table: Table) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(windows.extent.format(table=table.name))
        start, end = cursor.fetchone()
    return start, end


def _delete(windows: Windows, table: Table, start: int, stop: int, now: datetime) -> int:
    statement = windows.delete.format(table=table.name, column=table.column)
    places = (windows.place.format(start), windows.place.format(stop))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"SET LOCAL statement_timeout = {CUT_OFF_MS}")
        cursor.execute(statement, [*places, *adapted(now - table.kept)])
        return int(cursor.rowcount)


def _fitting(windows: Windows, width: int, seconds: float) -> int:
    """Half as wide after a statement that took too long, twice as wide after one that was done in no time."""
    if seconds > LONGEST_SECONDS:
        return max(width // 2, windows.narrowest)
    return min(width * 2, windows.widest) if seconds < LONGEST_SECONDS / 2 else width
