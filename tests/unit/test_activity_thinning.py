"""Of a flooded day the purge keeps few records, and every count. D24."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Count, Sum

from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome, Step
from oauth_bridge.maintenance import purging, thinning
from oauth_bridge.storage import activity_counts

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)
DAY = timedelta(days=1)
FLOODED, OTHER = "f" * 32, "a" * 32


def happened(
    number: int, at: datetime, client_id: str = FLOODED, cause: str = "secret_wrong", *, is_proven: bool = False
) -> list[ActivityRecord]:
    outcome = Outcome.REFUSED if cause else Outcome.SUCCEEDED
    for _ in range(number):
        activity_counts.count(at, client_id, Step.EXCHANGE, outcome, cause)
    activity_counts.flush()
    row = {"at": at, "client_id": client_id, "step": Step.EXCHANGE, "outcome": outcome, "cause": cause}
    return ActivityRecord.objects.bulk_create(ActivityRecord(**row, is_proven=is_proven) for _ in range(number))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "MOST_OF_A_DAY", 50)
    monkeypatch.setattr(thinning, "BATCH", 7)


def kept(client_id: str) -> dict[str, int]:
    rows = ActivityRecord.objects.filter(client_id=client_id).order_by()
    return dict(rows.values_list("cause").annotate(Count("pk")))


def test_the_first_of_each_cause_and_those_who_proved_themselves_are_kept_and_all_counts() -> None:
    yesterday = NOW - DAY
    floods = happened(70, yesterday)
    happened(3, yesterday, cause="client_disabled")
    happened(5, yesterday, cause="code_expired", is_proven=True)
    happened(60, yesterday, cause="")
    happened(50, yesterday, OTHER)
    counted = ActivityCount.objects.aggregate(Sum("number"))
    batches = list(purging.batches(NOW))
    assert kept(FLOODED) == {"secret_wrong": 42, "client_disabled": 3, "code_expired": 5, "": 60}
    assert kept(OTHER) == {"secret_wrong": 50}
    assert ActivityRecord.objects.filter(pk__in=[each.pk for each in floods[:42]]).count() == 42
    assert ActivityCount.objects.aggregate(Sum("number")) == counted
    assert [batch.rows for batch in batches][:4] == [7, 7, 7, 7]
    assert sum(batch.rows for batch in batches) == 28


def test_today_is_left_alone_and_so_is_a_day_that_an_earlier_run_has_seen() -> None:
    happened(60, NOW - 9 * timedelta(hours=1) + timedelta(minutes=1))
    happened(60, NOW - 4 * DAY, OTHER)
    purging.PurgeRun.objects.create(pk=1, finished_at=NOW - 2 * DAY)
    list(purging.batches(NOW))
    assert (kept(FLOODED), kept(OTHER)) == ({"secret_wrong": 60}, {"secret_wrong": 60})
    list(purging.batches(NOW + DAY))
    assert kept(FLOODED) == {"secret_wrong": 50}
    purging.PurgeRun.objects.all().delete()
    list(purging.batches(NOW))
    assert kept(OTHER) == {"secret_wrong": 50}
