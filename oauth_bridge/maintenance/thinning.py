"""If an application has very many records on one day, delete most of them. The counts stay complete. D24."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import F, Sum, Window
from django.db.models.functions import RowNumber, TruncDate

from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome

# The number of refusals and failures that are kept for each application and day (UTC).
MOST_OF_A_DAY = 2_000
BATCH = 200
_DAY = timedelta(days=1)


def superfluous(now: datetime, last_run: datetime | None) -> Iterator[list[int]]:
    """Yield the keys of the records to delete, BATCH at a time.

    For each application and each day that ended since the last run, MOST_OF_A_DAY refusals and failures are kept.
    Records of callers that sent a valid secret, code or token have priority over other records. Within each of these
    two groups, earlier records of a cause have priority over later records.
    """
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=settings.ACTIVITY_DAYS)
    if last_run:
        since = max(since, last_run.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - _DAY)
    counted = ActivityCount.objects.filter(hour__gte=since, hour__lt=today).exclude(outcome=Outcome.SUCCEEDED)
    days = counted.annotate(day=TruncDate("hour", tzinfo=UTC)).values_list("client_id", "day")
    for client_id, day in (
        days.annotate(total=Sum("number")).filter(total__gt=MOST_OF_A_DAY).values_list("client_id", "day")
    ):
        keys = _of(client_id, datetime(day.year, day.month, day.day, tzinfo=UTC))
        for start in range(0, len(keys), BATCH):
            yield sorted(keys[start : start + BATCH])


def delete(keys: list[int]) -> int:
    """Delete the records, except records that another transaction has locked. Call this function in a transaction."""
    rows = ActivityRecord.objects.filter(pk__in=keys)
    if connection.features.has_select_for_update_skip_locked:
        rows = ActivityRecord.objects.filter(
            pk__in=list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
        )
    return rows.delete()[0]


def _of(client_id: str, day: datetime) -> list[int]:
    place = Window(RowNumber(), partition_by=[F("step"), F("cause")], order_by="id")
    failed = ActivityRecord.objects.filter(client_id=client_id, at__gte=day, at__lt=day + _DAY)
    ranked = failed.exclude(outcome=Outcome.SUCCEEDED).annotate(place=place)
    return list(ranked.order_by("-is_proven", "place", "id").values_list("pk", flat=True)[MOST_OF_A_DAY:])
