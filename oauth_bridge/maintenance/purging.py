"""Delete expired rows in batches while the service runs, for `manage.py purge`. Contract, operator's interface.

Each batch reads one range of a table, in the order in which rows are stored. The size of the range therefore bounds the
cost of a batch, even if earlier batches left many deleted rows that are not yet vacuumed. A new run starts again at the
first row.

Only this module, `codes` and `after-restore` delete codes and tokens.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import FailedFactor, OutgoingMail, Session, User
from accounts.profile.own_data import delete_never_confirmed
from oauth_bridge.activity_models import ActivityCount, ActivityRecord
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode, PurgeRun, WithdrawnCode
from oauth_bridge.storage import activity_counts, issued_codes, signing_keys, tokens
from oauth_bridge.storage.secret_rotation import EXPIRED_KEPT_FOR

# A batch whose statement takes longer is canceled and tried again. Possible reasons are a slow disk and a locked table.
STATEMENT_TIMEOUT_MS = 500
QUERY_CANCELED = "57014"  # SQLSTATE

# The activity counts are kept longer than the records, because they name no person.
COUNTS_KEPT_FOR = timedelta(days=400)
# After this time, the network address in a record is replaced by its network, because it identifies a person (D24).
WHOLE_ADDRESS_FOR = timedelta(days=7)
PREFIXES = {4: 24, 6: 48}
# A sign-up that nobody confirmed is deleted after this time. The time is long enough, because the page that asks for
# the code expires after half an hour.
UNCONFIRMED_KEPT_FOR = timedelta(days=30)


class Expired(NamedTuple):
    """Rows to purge. `purge` deletes or changes the rows with the given keys, and returns their number."""

    rows: QuerySet[Any]
    purge: Callable[[list[Any]], int] | None = None


def expired(now: datetime) -> list[Expired]:
    """All rows that are past use."""
    ended = now - tokens.lifetime()
    codes, records = AuthorizationCode.objects, ActivityRecord.objects
    recorded = Q(is_expiry_recorded=True) | Q(expires_at__lte=now - activity_counts.UNRECORDED_FOR)
    whole = records.exclude(address="").exclude(address__contains="/")
    # Before the first sign-in, only a sign-up stores a language. The condition on `language` therefore keeps the
    # accounts that an operator created. Deactivated accounts are kept too.
    unconfirmed = User.objects.filter(email_verified_at=None, last_login=None, is_active=True).exclude(language="")
    unconfirmed = unconfirmed.filter(is_staff=False, is_superuser=False)
    return [
        # A redeemed code is the record of a sign-in. The code outlives its token, so that a replay still revokes the
        # token (D13). An unredeemed code is kept as long as a token, so that the answer to a late exchange names the
        # reason. It is kept longer if no worker has recorded its expiry yet.
        Expired(codes.filter(redeemed_at__lte=now - issued_codes.REDEEMED_KEPT_FOR)),
        Expired(codes.filter(recorded, redeemed_at=None, expires_at__lte=ended)),
        # A withdrawn code is kept as long as an unredeemed code.
        Expired(WithdrawnCode.objects.filter(expires_at__lte=ended)),
        Expired(AccessToken.objects.filter(expires_at__lte=now)),
        Expired(ApplicationSecret.objects.filter(expires_at__lte=now - EXPIRED_KEPT_FOR)),
        Expired(Session.objects.filter(expire_date__lte=now)),
        Expired(records.filter(at__lte=now - timedelta(days=settings.ACTIVITY_DAYS))),
        Expired(whole.filter(at__lte=now - WHOLE_ADDRESS_FOR), _shorten_addresses),
        Expired(ActivityCount.objects.filter(hour__lte=now - COUNTS_KEPT_FOR)),
        Expired(FailedFactor.objects.filter(expires_at__lte=now)),
        # `accounts.mail.outbox` deletes expired rows and logs unsent e-mails. The purge finds expired rows only if no
        # process sends e-mails.
        Expired(OutgoingMail.objects.filter(expires_at__lte=now - timedelta(days=1))),
        # Nobody else can use the address of a sign-up while the row exists.
        Expired(unconfirmed.filter(created_at__lte=now - UNCONFIRMED_KEPT_FOR), delete_never_confirmed),
    ]


def _shorten_addresses(keys: list[int]) -> int:
    """Replace the address of each record by its /24 (IPv4) or /48 (IPv6) network, or by nothing if it is malformed."""
    records: defaultdict[str, list[int]] = defaultdict(list)
    for key, address in ActivityRecord.objects.filter(pk__in=keys).values_list("pk", "address"):
        try:
            network = str(ip_network(f"{address}/{PREFIXES[ip_address(address).version]}", strict=False))
        except ValueError:
            network = ""
        records[network].append(key)
    return sum(ActivityRecord.objects.filter(pk__in=own).update(address=network) for network, own in records.items())


class Ranges(NamedTuple):
    """How one kind of database divides a table into ranges of `size` positions.

    `bounds` selects the first position and the position after the last one. `condition` is true in a range, whose
    bounds have the form `position`.
    """

    bounds: str
    condition: str
    position: str
    size: int


RANGES = {
    # Positions are pages of 8 kB. So a batch reads about 900 tokens, and takes some milliseconds.
    "postgresql": Ranges(
        "SELECT 0, pg_relation_size('{table}') / current_setting('block_size')::bigint",
        "ctid >= %s::tid AND ctid < %s::tid",
        "({},0)",
        size=16,
    ),
    # Positions are row ids.
    "sqlite": Ranges(
        "SELECT coalesce((SELECT min(rowid) FROM {table}), 0), coalesce((SELECT max(rowid) FROM {table}), -1) + 1",
        "rowid >= %s AND rowid < %s",
        "{}",
        size=1_000,
    ),
}


class Batch(NamedTuple):
    """The result of one batch. `done` is the share of all tables that the run has read so far, from 0 to 1.

    A batch that timed out has deleted nothing, so the next batch starts at the same position.
    """

    table: str
    rows: int
    seconds: float
    done: float
    has_timed_out: bool = False


def batches(now: datetime) -> Iterator[Batch]:
    """Purge all tables once. Each batch is one transaction."""
    ranges = RANGES[connection.vendor]
    bounds = [(each, *_bounds(ranges, each)) for each in expired(now)]
    passed, total = 0, sum(end - start for _, start, end in bounds)
    for each, start, end in bounds:
        while start < end:
            stop = min(start + ranges.size, end)
            rows, seconds = _timed(partial(_purge, ranges, each, start, stop))
            if rows is not None:
                passed, start = passed + stop - start, stop
            table = each.rows.model._meta.db_table
            yield Batch(table, rows or 0, seconds, passed / total, has_timed_out=rows is None)


def _bounds(ranges: Ranges, each: Expired) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(ranges.bounds.format(table=each.rows.model._meta.db_table))
        start, end = cursor.fetchone()
    return start, end


def _purge(ranges: Ranges, each: Expired, start: int, stop: int) -> int:
    """Purge the rows of the range. Locked rows are skipped, so that no deadlock occurs. The next run finds them."""
    positions = [ranges.position.format(start), ranges.position.format(stop)]
    rows = each.rows.extra(where=[ranges.condition], params=positions)  # noqa: S610 - constants and numbers
    keys = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
    if not keys:
        return 0
    return each.purge(keys) if each.purge else each.rows.model._default_manager.filter(pk__in=keys).delete()[0]


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
