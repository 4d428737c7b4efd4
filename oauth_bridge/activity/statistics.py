"""Count the steps of sign-ins by outcome and cause, for the pages of the administration.

The numbers come from ActivityCount, which is complete even in a flood. Only `people` reads records.
"""

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
    """A cause of failures at a step. `client_id` is empty for an unknown application, or for several together."""

    client_id: str
    step: str
    cause: str


def start_of(days: int) -> datetime:
    """For one day, 24 hours ago, rounded down to the hour. For several days, midnight (UTC) of the first day."""
    now = timezone.now()
    if days == 1:
        return (now - DAY).replace(minute=0, second=0, microsecond=0)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - (days - 1) * DAY


def failures(
    since: datetime, until: datetime | None = None, client_ids: Collection[str] | None = None
) -> Counter[Failing]:
    """Count the failures by application, step and cause, from the hour of `since` up to the hour before `until`."""
    counts = _counts(since, until, client_ids).exclude(outcome=Outcome.SUCCEEDED)
    rows = counts.values_list("client_id", "step", "cause").annotate(total=Sum("number"))
    return Counter({Failing(client_id, step, cause): total for client_id, step, cause, total in rows})


def sign_ins(since: datetime, client_ids: Collection[str] | None = None) -> Counter[str]:
    """Count the successful exchanges by client_id, from the hour of `since` on."""
    done = _counts(since, None, client_ids).filter(step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return Counter(dict(done.values_list("client_id").annotate(Sum("number"))))


def last_hours(client_ids: Collection[str]) -> dict[str, datetime]:
    """The hour of the last sign-in by client_id. Applications without a sign-in are left out."""
    done = ActivityCount.objects.filter(client_id__in=client_ids, step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return dict(done.values_list("client_id").annotate(Max("hour")))


def people(since: datetime, failing: Failing) -> int:
    """Count the people who met this failure, among the application's newest MOST_RECORDS records."""
    newest = records(Filters(client_ids=[failing.client_id])).values("pk")[:MOST_RECORDS]
    found = ActivityRecord.objects.filter(pk__in=newest, at__gte=since, step=failing.step, cause=failing.cause)
    return found.aggregate(number=Count("person", distinct=True))["number"]  # type: ignore[no-any-return]


def _counts(since: datetime, until: datetime | None, client_ids: Collection[str] | None):  # type: ignore[no-untyped-def]
    counts = ActivityCount.objects.filter(hour__gte=since.replace(minute=0, second=0, microsecond=0))
    if until:
        counts = counts.filter(hour__lt=until.replace(minute=0, second=0, microsecond=0))
    return counts if client_ids is None else counts.filter(client_id__in=client_ids)
