"""Count the steps of sign-ins. Most numbers come from ActivityCount, because many steps have no record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Max, Sum
from django.utils import timezone

from oauth_bridge.activity.reading import Filters, records
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step

DAY = timedelta(days=1)
# Only this number of the newest records is searched, so that a search does not take long after a flood.
MOST_RECORDS = 20_000


class Failing(NamedTuple):
    """A cause of failures at a step. `client_id` is empty for unknown applications and in sums over applications."""

    client_id: str
    step: str
    cause: str


def start_of(days: int) -> datetime:
    """Return 0:00 UTC of the day `days` - 1 days ago. If `days` is 1, return 24 hours ago, rounded down to the hour."""
    now = timezone.now()
    if days == 1:
        return (now - DAY).replace(minute=0, second=0, microsecond=0)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - (days - 1) * DAY


def failures(
    since: datetime, until: datetime | None = None, client_ids: Collection[str] | None = None
) -> Counter[Failing]:
    """Count refusals and failures. `since` and `until` are rounded down to full hours."""
    counts = _counts(since, until, client_ids).exclude(outcome=Outcome.SUCCEEDED)
    rows = counts.values_list("client_id", "step", "cause").annotate(total=Sum("number"))
    return Counter({Failing(client_id, step, cause): total for client_id, step, cause, total in rows})


def sign_ins(since: datetime, client_ids: Collection[str] | None = None) -> Counter[str]:
    """Count the successful exchanges by client_id. `since` is rounded down to a full hour."""
    done = _counts(since, None, client_ids).filter(step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return Counter(dict(done.values_list("client_id").annotate(Sum("number"))))


def last_hours(client_ids: Collection[str]) -> dict[str, datetime]:
    """Return the hour of each application's last successful exchange, by client_id."""
    done = ActivityCount.objects.filter(client_id__in=client_ids, step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return dict(done.values_list("client_id").annotate(Max("hour")))


def people(since: datetime, failing: Failing) -> int:
    """Count known people who met this failure after `since`. Search the application's newest MOST_RECORDS records."""
    newest = records(Filters(client_ids=[failing.client_id])).values("pk")[:MOST_RECORDS]
    found = ActivityRecord.objects.filter(pk__in=newest, at__gte=since, step=failing.step, cause=failing.cause)
    return found.aggregate(number=Count("person", distinct=True))["number"]  # type: ignore[no-any-return]


def _counts(since: datetime, until: datetime | None, client_ids: Collection[str] | None):  # type: ignore[no-untyped-def]
    counts = ActivityCount.objects.filter(hour__gte=since.replace(minute=0, second=0, microsecond=0))
    if until:
        counts = counts.filter(hour__lt=until.replace(minute=0, second=0, microsecond=0))
    return counts if client_ids is None else counts.filter(client_id__in=client_ids)
