"""The network addresses of records that are older than a week are shortened by the purge. D24."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from oauth_bridge.activity_models import ActivityRecord, Outcome, Step
from oauth_bridge.maintenance import purging
from oauth_bridge.maintenance.shortening import network_of

pytestmark = pytest.mark.django_db


def record(address: str, days: float) -> ActivityRecord:
    at = timezone.now() - timedelta(days=days)
    return ActivityRecord.objects.create(at=at, step=Step.SIGN_IN, outcome=Outcome.REFUSED, address=address)


def test_old_addresses_become_networks_and_young_ones_stay() -> None:
    old = [record(address, 8) for address in ("192.0.2.77", "192.0.2.78", "2001:db8:1:2::5", "", "unknown")]
    young = record("192.0.2.77", 6)
    for _ in range(2):  # a second purge finds nothing
        assert list(purging.batches(timezone.now()))
        shown = [ActivityRecord.objects.get(pk=each.pk).address for each in old]
        assert shown == ["192.0.2.0/24", "192.0.2.0/24", "2001:db8:1::/48", "", ""]
    young.refresh_from_db()
    assert young.address == "192.0.2.77"


@pytest.mark.parametrize(
    ("address", "network"),
    [("255.255.255.255", "255.255.255.0/24"), ("::1", "::/48"), ("fe80::1", "fe80::/48"), ("x", ""), ("", "")],
)
def test_what_is_no_address_is_left_out(address: str, network: str) -> None:
    assert network_of(address) == network
