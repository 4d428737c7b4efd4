"""A flood of 100,000 refused requests: rows are bounded, nobody else loses a record, and all are counted. D24."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from urllib.parse import urlencode

import pytest

from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.conftest import Launch
from tests.databases import OwnRedis
from tests.factories import ApplicationFactory, Registered
from tests.faults.load import FORM, Caller
from tests.peers import wait_until
from tests.server import Server

REQUESTS = int(os.environ.get("FLOOD_REQUESTS", "100000"))
SENDERS = 8
OTHERS, PROVEN = 100, 60
WRONG = {"grant_type": "authorization_code", "code": "x" * 43, "client_secret": "wrong"}

pytestmark = pytest.mark.long


def refused(caller: Caller, form: dict[str, str], address: str, status: int = 401, **more: str) -> str:
    """The reference of the refusal. The request comes from the address, as the trusted proxy tells."""
    answer = caller.call("POST", "/oauth/token", urlencode(form), {**FORM, "X-Forwarded-For": address, **more})
    assert answer.status == status
    return str(answer.headers["X-Reference"])


def basic(application: Registered) -> str:
    return "Basic " + base64.b64encode(f"{application.client_id}:{application.client_secret}".encode()).decode()


def flood(server: Server, client_id: str, numbers: Iterable[int]) -> int:
    caller, form = Caller(server), {**WRONG, "client_id": client_id}
    return sum(bool(refused(caller, form, str(IPv4Address(0x0A000000 + number)))) for number in numbers)


@pytest.fixture
def server(postgresql: None, redis_server: OwnRedis, launch: Launch) -> Server:
    limits = {"RATE_LIMITS": "off", "REDIS_URL": redis_server.url}
    return launch(TRUSTED_PROXIES="127.0.0.1/32", WEB_CONCURRENCY="2", **limits)


def test_a_flood_of_refused_requests_fills_no_table_and_hides_nothing(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    attacked, other = ApplicationFactory(), ApplicationFactory()
    began, caller = time.monotonic(), Caller(server)
    with ThreadPoolExecutor(SENDERS) as pool:
        shares = [range(number, REQUESTS, SENDERS) for number in range(SENDERS)]
        attackers = [pool.submit(flood, server, attacked.client_id, share) for share in shares]
        unknown = {"grant_type": "authorization_code", "code": "y" * 43}
        proven = [refused(caller, unknown, "192.0.2.1", 400, Authorization=basic(attacked)) for _ in range(PROVEN)]
        # Forty from one address, and others.
        wrong = {**WRONG, "client_id": other.client_id}
        addresses = ["192.0.2.7" if number < 40 else f"192.0.{number}.9" for number in range(OTHERS)]
        others = [refused(caller, wrong, address) for address in addresses]
        assert sum(each.result() for each in attackers) == REQUESTS
    seconds = time.monotonic() - began

    rows = ActivityRecord.objects.filter(client_id=attacked.client_id)
    strangers = rows.filter(is_proven=False).count()
    with capsys.disabled():
        print(f"\n{REQUESTS} refused in {seconds:.0f} s; rows {rows.count()}, of strangers {strangers}")  # noqa: T201
    hours = 2 + seconds // 3600  # of the clock
    assert 0 < strangers <= hours * 1_000
    assert set(proven) <= set(rows.filter(is_proven=True).values_list("reference", flat=True))
    kept = ActivityRecord.objects.filter(client_id=other.client_id).values_list("reference", flat=True)
    assert set(others) <= set(kept)
    wait_until(lambda: counted(attacked, "secret_wrong") == REQUESTS)
    wait_until(lambda: counted(attacked, "code_unknown") == PROVEN)
    wait_until(lambda: counted(other, "secret_wrong") == OTHERS)


def counted(application: Registered, cause: str) -> int:
    rows = ActivityCount.objects.filter(client_id=application.client_id, cause=cause)
    return sum(rows.values_list("number", flat=True))
