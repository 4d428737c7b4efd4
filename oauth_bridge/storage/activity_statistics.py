"""Count the steps of sign-ins by outcome, cause and day, for the pages of the administration. D24.

The counts of the activity log are complete even in a flood. The records are not complete in a flood. Only the number of
people and the latest time of a cause come from the records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from oauth_bridge.activity_causes import NEVER_EXCHANGED, needs_mending
from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome, Step
from oauth_bridge.storage import issued_codes
from oauth_bridge.storage.issued_codes import NeverExchanged

DAY = timedelta(days=1)
# Only this number of the newest records is searched, so that a search does not take long after a flood.
MOST_RECORDS = 20_000


class Failing(NamedTuple):
    """A cause of failures at a step of an application. `client_id` is empty if the application is unknown."""

    client_id: str
    step: str
    cause: str


class Met(NamedTuple):
    """The number of people with failures of a cause, the time of the latest failure, and the number of the records.

    Never-exchanged codes without a record are included.
    """

    people: int
    last_at: datetime
    records: int


class Days(NamedTuple):
    """The numbers of a day: finished sign-ins, and failures for which `needs_mending` is true."""

    day: date
    finished: int
    failed: int


def start_of(days: int) -> datetime:
    """The beginning of a period of `days` days.

    One day: 24 hours ago, rounded down to the hour. Several days: midnight (UTC) of the first day.
    """
    now = timezone.now()
    if days == 1:
        return (now - DAY).replace(minute=0, second=0, microsecond=0)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - (days - 1) * DAY


def failures(
    since: datetime, until: datetime | None = None, client_ids: Collection[str] | None = None
) -> Counter[Failing]:
    """Count the failures by application, step and cause.

    The count includes the hour of `since` and excludes the hour of `until`. `client_ids` limits the count to these
    applications.
    """
    counts = _counts(since, until, client_ids).exclude(outcome=Outcome.SUCCEEDED)
    rows = counts.values_list("client_id", "step", "cause").annotate(total=Sum("number"))
    found = Counter({Failing(client_id, step, cause): total for client_id, step, cause, total in rows})
    if until is None:
        found.update(_not_purged(since, client_ids))
    return found


def sign_ins(since: datetime, client_ids: Collection[str] | None = None) -> Counter[str]:
    """Count the successful exchanges by client_id, from the hour of `since` on."""
    done = _counts(since, None, client_ids).filter(step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return Counter(dict(done.values_list("client_id").annotate(Sum("number"))))


def last_hours(client_ids: Collection[str]) -> dict[str, datetime]:
    """The hour of the last sign-in of each application. Applications without a sign-in are left out."""
    done = ActivityCount.objects.filter(client_id__in=client_ids, step=Step.EXCHANGE, outcome=Outcome.SUCCEEDED)
    return dict(done.values_list("client_id").annotate(Max("hour")))


def met(since: datetime, client_ids: Collection[str] | None = None) -> dict[Failing, Met]:
    """What is known of each cause from the newest MOST_RECORDS records and the codes that expired unredeemed."""
    records = ActivityRecord.objects.all()
    if client_ids is not None:
        records = records.filter(client_id__in=client_ids)
    newest = records.order_by("-id").values("pk")[:MOST_RECORDS]
    recent = ActivityRecord.objects.filter(pk__in=newest, at__gte=since).exclude(outcome=Outcome.SUCCEEDED)
    rows = recent.values_list("client_id", "step", "cause").annotate(
        people=Count("person", distinct=True), last_at=Max("at"), records=Count("pk")
    )
    found = {Failing(client_id, step, cause): Met(*figures) for client_id, step, cause, *figures in rows}
    codes: defaultdict[str, list[NeverExchanged]] = defaultdict(list)
    for code in _expired_codes(since, client_ids):
        codes[code.client_id].append(code)
    recorded = recent.filter(cause=NEVER_EXCHANGED, person__isnull=False) if codes else recent.none()
    known: defaultdict[str, set[UUID]] = defaultdict(set)
    for client_id, person in recorded.values_list("client_id", "person").distinct():
        known[client_id].add(person)
    for client_id, expired in codes.items():
        failing = Failing(client_id, Step.EXCHANGE, NEVER_EXCHANGED)
        people = known[client_id] | {code.person_id for code in expired}
        last_at = max(code.expired_at for code in expired)
        before = found.get(failing, Met(0, last_at, 0))
        found[failing] = Met(len(people), max(before.last_at, last_at), before.records + len(expired))
    return found


def by_day(client_id: str, days: int) -> list[Days]:
    """The numbers of the last `days` days in UTC, the oldest day first."""
    today, since = timezone.now().date(), start_of(days)
    rows = (
        _counts(since, None, [client_id])
        .annotate(day=TruncDate("hour"))
        .values_list("day", "step", "outcome", "cause")
        .annotate(total=Sum("number"))
    )
    finished: Counter[date] = Counter()
    failed: Counter[date] = Counter()
    for day, step, outcome, cause, total in rows:
        if outcome != Outcome.SUCCEEDED and needs_mending(step, cause):
            failed[day] += total
        elif (step, outcome) == (Step.EXCHANGE, Outcome.SUCCEEDED):
            finished[day] += total
    for code in _expired_codes(since, [client_id]):
        failed[code.expired_at.date()] += 1
    each = [today - number * DAY for number in reversed(range(days))]
    return [Days(day, finished[day], failed[day]) for day in each]


def _counts(since: datetime, until: datetime | None, client_ids: Collection[str] | None):  # type: ignore[no-untyped-def]
    counts = ActivityCount.objects.filter(hour__gte=since.replace(minute=0, second=0, microsecond=0))
    if until:
        counts = counts.filter(hour__lt=until.replace(minute=0, second=0, microsecond=0))
    return counts if client_ids is None else counts.filter(client_id__in=client_ids)


def _not_purged(since: datetime, client_ids: Collection[str] | None) -> Counter[Failing]:
    return Counter(
        Failing(code.client_id, Step.EXCHANGE, NEVER_EXCHANGED) for code in _expired_codes(since, client_ids)
    )


def _expired_codes(since: datetime, client_ids: Collection[str] | None) -> list[NeverExchanged]:
    """The expired codes that were never exchanged and that the purge has not counted yet."""
    only = next(iter(client_ids)) if client_ids is not None and len(client_ids) == 1 else ""
    codes = issued_codes.never_exchanged(only, since, MOST_RECORDS)
    return [code for code in codes if client_ids is None or code.client_id in client_ids]
