"""What the purge deletes, shortens and keeps of the activity log. Of a flooded day it keeps every count. D24."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.db.models import Count, Sum
from django.utils import timezone

from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome, Step
from oauth_bridge.maintenance import purging, thinning
from oauth_bridge.storage import activity_counts
from tests.unit.test_activity import Tried

pytestmark = [pytest.mark.django_db, pytest.mark.integration]
NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)
DAY = timedelta(days=1)
FLOODED, OTHER = "f" * 32, "a" * 32


def purge(at: datetime) -> list[purging.Batch]:
    return list(purging.batches(at))


def test_records_are_kept_for_their_days_and_deleted_with_their_person() -> None:
    tried, now = Tried(), timezone.now()
    tried.sign_in(password="wrong")
    for days, kept in ((settings.ACTIVITY_DAYS - 1, 1), (settings.ACTIVITY_DAYS + 1, 0)):
        purge(now + days * DAY)
        assert ActivityRecord.objects.count() == kept
    tried.sign_in(password="wrong")
    tried.person.delete()
    assert ActivityRecord.objects.count() == 0


def test_addresses_older_than_a_week_become_networks() -> None:
    addresses = ("192.0.2.77", "192.0.2.78", "2001:db8:1:2::5", "::1", "", "unknown")
    now, row = timezone.now(), {"step": Step.SIGN_IN, "outcome": Outcome.REFUSED}
    for address in addresses:
        ActivityRecord.objects.create(at=now - 8 * DAY, address=address, **row)
    ActivityRecord.objects.create(at=now - 6 * DAY, address="192.0.2.77", **row)
    for _ in range(2):  # a second purge finds nothing
        purge(now)
        shown = list(ActivityRecord.objects.order_by("pk").values_list("address", flat=True))
        assert shown == ["192.0.2.0/24", "192.0.2.0/24", "2001:db8:1::/48", "::/48", "", "", "192.0.2.77"]


def happened(
    number: int, at: datetime, client_id: str = FLOODED, cause: str = "secret_wrong", *, is_proven: bool = False
) -> list[ActivityRecord]:
    outcome = Outcome.REFUSED if cause else Outcome.SUCCEEDED
    for _ in range(number):
        activity_counts.count(at, client_id, Step.EXCHANGE, outcome, cause)
    activity_counts.flush()
    row = {"at": at, "client_id": client_id, "step": Step.EXCHANGE, "outcome": outcome, "cause": cause}
    return ActivityRecord.objects.bulk_create(ActivityRecord(**row, is_proven=is_proven) for _ in range(number))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "MOST_OF_A_DAY", 50)
    monkeypatch.setattr(thinning, "BATCH", 7)


def kept(client_id: str) -> dict[str, int]:
    rows = ActivityRecord.objects.filter(client_id=client_id).order_by()
    return dict(rows.values_list("cause").annotate(Count("pk")))


def test_the_first_of_each_cause_and_those_who_proved_themselves_are_kept_and_all_counts(few: None) -> None:
    yesterday = NOW - DAY
    floods = happened(70, yesterday)
    happened(3, yesterday, cause="client_disabled")
    happened(45, yesterday, cause="code_expired", is_proven=True)
    happened(60, yesterday, cause="")
    happened(50, yesterday, OTHER)
    counted = ActivityCount.objects.aggregate(Sum("number"))
    rows = [batch.rows for batch in purge(NOW)]
    assert kept(FLOODED) == {"secret_wrong": 3, "client_disabled": 2, "code_expired": 45, "": 60}
    assert kept(OTHER) == {"secret_wrong": 50}
    assert ActivityRecord.objects.filter(pk__in=[each.pk for each in floods[:3]]).count() == 3
    assert ActivityCount.objects.aggregate(Sum("number")) == counted
    assert (rows[:4], sum(rows)) == ([7, 7, 7, 7], 68)


def test_today_is_left_alone_and_so_is_a_day_that_an_earlier_run_has_seen(few: None) -> None:
    happened(60, NOW - 9 * timedelta(hours=1) + timedelta(minutes=1))
    happened(60, NOW - 4 * DAY, OTHER)
    purging.PurgeRun.objects.create(pk=1, finished_at=NOW - 2 * DAY)
    purge(NOW)
    assert (kept(FLOODED), kept(OTHER)) == ({"secret_wrong": 60}, {"secret_wrong": 60})
    purge(NOW + DAY)
    assert kept(FLOODED) == {"secret_wrong": 50}
    purging.PurgeRun.objects.all().delete()
    purge(NOW)
    assert kept(OTHER) == {"secret_wrong": 50}
