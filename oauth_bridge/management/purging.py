"""Delete expired rows for `manage.py purge`, in batches. A batch reads one range of a table (RANGES)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import FailedFactor, OutgoingMail, Session, User
from accounts.profile import delete_never_confirmed
from oauth_bridge.activity import counts
from oauth_bridge.credentials import code_history, tokens
from oauth_bridge.credentials.secret_rotation import EXPIRED_KEPT_FOR
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode, PurgeRun, WithdrawnCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord

# The activity counts are kept longer than the records, because they name no person.
COUNTS_KEPT_FOR = timedelta(days=400)
# After this time, the network address in a record is replaced by its network.
WHOLE_ADDRESS_FOR = timedelta(days=7)
# A sign-up that nobody confirmed is deleted after this time. The page for the mailed code expires after half an hour.
UNCONFIRMED_KEPT_FOR = timedelta(days=30)

# The rows to purge, and a function that purges the rows with given keys and returns their number; None: delete them.
Expired = tuple[QuerySet[Any], Callable[[list[Any]], int] | None]


def expired(now: datetime) -> list[Expired]:
    """The rows to purge: expired rows, unconfirmed accounts, and records whose network address is to be shortened."""
    ended = now - tokens.lifetime()
    codes, records = AuthorizationCode.objects, ActivityRecord.objects
    recorded = Q(is_expiry_recorded=True) | Q(expires_at__lte=now - counts.UNRECORDED_FOR)
    whole = records.exclude(address="").exclude(address__contains="/")
    # Before the first sign-in, only a sign-up stores a language. So accounts that an operator created are kept.
    unconfirmed = User.objects.filter(email_verified_at=None, last_login=None, is_active=True).exclude(language="")
    unconfirmed = unconfirmed.filter(is_staff=False, is_superuser=False)
    deleted: list[QuerySet[Any]] = [
        # A redeemed code is the record of a sign-in, and outlives its token, so that a replay still revokes the token.
        # An unredeemed code is kept as long as a token, so that the answer to a late exchange names the reason. It is
        # kept longer if no worker has recorded its expiry yet.
        codes.filter(redeemed_at__lte=now - code_history.REDEEMED_KEPT_FOR),
        codes.filter(recorded, redeemed_at=None, expires_at__lte=ended),
        WithdrawnCode.objects.filter(expires_at__lte=ended),
        AccessToken.objects.filter(expires_at__lte=now),
        ApplicationSecret.objects.filter(expires_at__lte=now - EXPIRED_KEPT_FOR),
        Session.objects.filter(expire_date__lte=now),
        records.filter(at__lte=now - timedelta(days=settings.ACTIVITY_DAYS)),
        # The person was deleted while the record was written.
        records.exclude(Exists(User.objects.filter(pk=OuterRef("person")))).exclude(person=None),
        ActivityCount.objects.filter(hour__lte=now - COUNTS_KEPT_FOR),
        FailedFactor.objects.filter(expires_at__lte=now),
        # Where e-mails are sent, `accounts.mail.outbox` deletes expired rows earlier.
        OutgoingMail.objects.filter(expires_at__lte=now - timedelta(days=1)),
    ]
    return [
        *((rows, None) for rows in deleted),
        (whole.filter(at__lte=now - WHOLE_ADDRESS_FOR), _shorten_addresses),
        (unconfirmed.filter(created_at__lte=now - UNCONFIRMED_KEPT_FOR), delete_never_confirmed),
    ]


def _shorten_addresses(keys: list[int]) -> int:
    """Replace IPv4 addresses by /24 networks, "::1" and "unknown" by "". Other IPv6 addresses are already networks."""
    rows = ActivityRecord.objects.filter(pk__in=keys)
    for address in set(rows.values_list("address", flat=True)):
        rows.filter(address=address).update(address=f"{address.rpartition('.')[0]}.0/24" if "." in address else "")
    return len(keys)


# How a database divides a table into ranges: SQL for the first position of a table and for the position after the last,
# SQL that is true for the rows between two positions, the format of a position, and the number of positions in a range.
RANGES = {
    # Positions are pages of 8 kB, so a batch reads about 900 tokens.
    "postgresql": (
        "SELECT 0, pg_relation_size('{table}') / current_setting('block_size')::bigint",
        "ctid >= %s::tid AND ctid < %s::tid",
        "({},0)",
        16,
    ),
    # Positions are row ids.
    "sqlite": (
        "SELECT coalesce((SELECT min(rowid) FROM {table}), 0), coalesce((SELECT max(rowid) FROM {table}), -1) + 1",
        "rowid >= %s AND rowid < %s",
        "{}",
        1_000,
    ),
}


def batches(now: datetime) -> Iterator[tuple[str, int]]:
    """Purge the rows of `expired`, each batch in a transaction. Yield each batch's table and number of purged rows."""
    bounds, condition, position, size = RANGES[connection.vendor]
    for rows, purge in expired(now):
        table = rows.model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(bounds.format(table=table))
            first, end = cursor.fetchone()
        for start in range(first, end, size):
            positions = [position.format(each) for each in (start, start + size)]
            batch = rows.extra(where=[condition], params=positions)  # noqa: S610 - constants and numbers
            with transaction.atomic():
                # Locked rows wait for the next run, so that no deadlock occurs.
                keys = list(batch.select_for_update(skip_locked=True).values_list("pk", flat=True))
                purged = purge(keys) if purge else rows.model._default_manager.filter(pk__in=keys).delete()[0]
            yield table, purged


def last_finished() -> datetime | None:
    """Return the time at which `manage.py purge` last finished all tables; None if it never did."""
    return PurgeRun.objects.values_list("finished_at", flat=True).first()
