"""What the purge deletes, shortens and keeps of the activity log. D24."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from oauth_bridge.management import purging
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.unit.test_activity import Tried

pytestmark = [pytest.mark.django_db, pytest.mark.integration]
DAY = timedelta(days=1)


def purge(at: datetime) -> None:
    list(purging.batches(at))


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
