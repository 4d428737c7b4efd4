"""Delete expired rows in batches, for `manage.py purge`.

Each batch reads one range of a table, in the order in which rows are stored. The size of the range therefore bounds the
cost of a batch, even if earlier batches left many deleted rows that are not yet vacuumed.

Only this module, `codes` and `after-restore` delete codes and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.models import FailedFactor, OutgoingMail, Session, User
from accounts.profile import delete_never_confirmed
from oauth_bridge.activity import counts
from oauth_bridge.credentials import code_history, tokens
from oauth_bridge.credentials.secret_rotation import EXPIRED_KEPT_FOR
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode, PurgeRun, WithdrawnCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from oauth_bridge.openid import signing_keys

# The activity counts are kept longer than the records, because they name no person.
COUNTS_KEPT_FOR = timedelta(days=400)
# After this time, the network address in a record is replaced by its network, because it identifies a person.
WHOLE_ADDRESS_FOR = timedelta(days=7)
# A sign-up that nobody confirmed is deleted after this time. The time is long enough, because the page that asks for
# the code expires after half an hour.
UNCONFIRMED_KEPT_FOR = timedelta(days=30)

# The rows to purge, and the function that deletes or changes the rows with these keys and returns their number.
Expired = tuple[QuerySet[Any], Callable[[list[Any]], int] | None]


def expired(now: datetime) -> list[Expired]:
    """All rows that are past use."""
    ended = now - tokens.lifetime()
    codes, records = AuthorizationCode.objects, ActivityRecord.objects
    recorded = Q(is_expiry_recorded=True) | Q(expires_at__lte=now - counts.UNRECORDED_FOR)
    whole = records.exclude(address="").exclude(address__contains="/")
    # Before the first sign-in, only a sign-up stores a language. The condition on `language` therefore keeps the
    # accounts that an operator created. Deactivated accounts are kept too.
    unconfirmed = User.objects.filter(email_verified_at=None, last_login=None, is_active=True).exclude(language="")
    unconfirmed = unconfirmed.filter(is_staff=False, is_superuser=False)
    deleted: list[QuerySet[Any]] = [
        # A redeemed code is the record of a sign-in. The code outlives its token, so that a replay still revokes the
        # token. An unredeemed code is kept as long as a token, so that the answer to a late exchange names the
        # reason. It is kept longer if no worker has recorded its expiry yet.
        codes.filter(redeemed_at__lte=now - code_history.REDEEMED_KEPT_FOR),
        codes.filter(recorded, redeemed_at=None, expires_at__lte=ended),
        # A withdrawn code is kept as long as an unredeemed code.
        WithdrawnCode.objects.filter(expires_at__lte=ended),
        AccessToken.objects.filter(expires_at__lte=now),
        ApplicationSecret.objects.filter(expires_at__lte=now - EXPIRED_KEPT_FOR),
        Session.objects.filter(expire_date__lte=now),
        records.filter(at__lte=now - timedelta(days=settings.ACTIVITY_DAYS)),
        # The person was deleted while the record was written.
        records.exclude(Exists(User.objects.filter(pk=OuterRef("person")))).exclude(person=None),
        ActivityCount.objects.filter(hour__lte=now - COUNTS_KEPT_FOR),
        FailedFactor.objects.filter(expires_at__lte=now),
        # `accounts.mail.outbox` deletes expired rows and logs unsent e-mails. The purge finds expired rows only if no
        # process sends e-mails.
        OutgoingMail.objects.filter(expires_at__lte=now - timedelta(days=1)),
    ]
    return [
        *((rows, None) for rows in deleted),
        (whole.filter(at__lte=now - WHOLE_ADDRESS_FOR), _shorten_addresses),
        # Nobody else can use the address of a sign-up while the row exists.
        (unconfirmed.filter(created_at__lte=now - UNCONFIRMED_KEPT_FOR), delete_never_confirmed),
    ]


def _shorten_addresses(keys: list[int]) -> int:
    """Replace IPv4 addresses by /24 networks, and clear others ("::1"). Recorded IPv6 networks are not passed."""
    rows = ActivityRecord.objects.filter(pk__in=keys)
    for address in set(rows.values_list("address", flat=True)):
        rows.filter(address=address).update(address=f"{address.rpartition('.')[0]}.0/24" if "." in address else "")
    return len(keys)


class Ranges(NamedTuple):
    """How one kind of database divides a table into ranges of `size` positions, which are pages or row ids.

    `bounds` is SQL that selects the first position of a table, and the position after the last. `condition` is SQL that
    is true for the rows between two bounds. `position` formats a bound from a number.
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


def batches(now: datetime) -> Iterator[tuple[str, int]]:
    """Purge all tables once, each batch in a transaction. Yield each batch's table and number of purged rows."""
    ranges = RANGES[connection.vendor]
    for rows, purge in expired(now):
        table = rows.model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(ranges.bounds.format(table=table))
            first, end = cursor.fetchone()
        for start in range(first, end, ranges.size):
            positions = [ranges.position.format(each) for each in (start, start + ranges.size)]
            batch = rows.extra(where=[ranges.condition], params=positions)  # noqa: S610 - constants and numbers
            with transaction.atomic():
                # Locked rows are skipped, so that no deadlock occurs. The next run finds them.
                keys = list(batch.select_for_update(skip_locked=True).values_list("pk", flat=True))
                purged = purge(keys) if purge else rows.model._default_manager.filter(pk__in=keys).delete()[0]
            yield table, purged


def record_finished() -> None:
    """Tidy the signing keys and store the time of the complete run, which `/health/ready` reports."""
    signing_keys.tidy(timezone.now())
    PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": timezone.now()})


def last_finished() -> datetime | None:
    """Return the time at which the last complete run ended; None before the first one."""
    return PurgeRun.objects.values_list("finished_at", flat=True).first()
