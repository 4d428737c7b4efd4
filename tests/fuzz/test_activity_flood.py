"""A flood of 100,000 refused requests: rows are bounded, nobody else loses a record, and all are counted. D24."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from urllib.parse import urlencode

import pytest

from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.conftest import Launch
from tests.databases import OwnRedis
from tests.factories import ApplicationFactory, Registered
from tests.faults.load import FORM, Caller
from tests.server import eventually

REQUESTS = int(os.environ.get("FLOOD_REQUESTS", "100000"))
SENDERS, OTHERS, PROVEN = 8, 100, 60

pytestmark = pytest.mark.long


def refused(caller: Caller, application: Registered, address: str, secret: str = "wrong") -> str:
    """The reference of the refusal. The request comes from the address, as the trusted proxy tells."""
    form = {"grant_type": "authorization_code", "code": "x" * 43, "client_id": application.client_id}
    body = urlencode(form | {"client_secret": secret})
    answer = caller.call("POST", "/oauth/token", body, {**FORM, "X-Forwarded-For": address})
    assert answer.status == (401 if secret == "wrong" else 400)
    return str(answer.headers["X-Reference"])


def test_a_flood_of_refused_requests_fills_no_table_and_hides_nothing(
    postgresql: None, redis_server: OwnRedis, launch: Launch
) -> None:
    server = launch(TRUSTED_PROXIES="127.0.0.1/32", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    attacked, other, caller = ApplicationFactory(), ApplicationFactory(), Caller(server)

    def flood(first: int) -> None:
        for number in range(first, REQUESTS, SENDERS):
            refused(caller, attacked, str(IPv4Address(0x0A000000 + number)))

    began = time.monotonic()
    with ThreadPoolExecutor(SENDERS) as pool:
        attackers = [pool.submit(flood, number) for number in range(SENDERS)]
        proven = {refused(caller, attacked, "192.0.2.1", attacked.secret) for _ in range(PROVEN)}
        # Forty from one address, and others.
        addresses = ["192.0.2.7" if number < 40 else f"192.0.{number}.9" for number in range(OTHERS)]
        others = {refused(caller, other, address) for address in addresses}
        for attacker in attackers:
            attacker.result()
    seconds = time.monotonic() - began

    rows = ActivityRecord.objects.filter(client_id=attacked.client_id)
    strangers = rows.filter(is_proven=False).count()
    print(f"{REQUESTS} refused in {seconds:.0f} s; rows {rows.count()}, of strangers {strangers}")  # noqa: T201
    assert 0 < strangers <= 1_000 * (2 + seconds // 3600)  # of each hour of the clock
    assert proven <= set(rows.filter(is_proven=True).values_list("reference", flat=True))
    kept = ActivityRecord.objects.filter(client_id=other.client_id).values_list("reference", flat=True)
    assert others <= set(kept)
    for application, cause, number in (
        (attacked, "secret_wrong", REQUESTS),
        (attacked, "code_unknown", PROVEN),
        (other, "secret_wrong", OTHERS),
    ):
        counts = ActivityCount.objects.filter(client_id=application.client_id, cause=cause)
        eventually(number, lambda counts=counts: sum(counts.values_list("number", flat=True)))
