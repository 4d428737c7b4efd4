"""A flood of 100,000 refused requests: rows are bounded, nobody else loses a record, and all are counted. D24."""

from __future__ import annotations

import base64
import http.client
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest
from django.db.models import Sum

from oauth_bridge.activity_models import ActivityBudget, ActivityCount, ActivityRecord
from oauth_bridge.storage.activity import FLOOD, NARROW, SLOTS
from tests.conftest import Launch
from tests.factories import ApplicationFactory, Registered
from tests.own_redis import OwnRedis
from tests.server import Server

REQUESTS = int(os.environ.get("FLOOD_REQUESTS", "100000"))
SENDERS = 8
OTHERS, PROVEN = 100, 60
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WRONG = {"grant_type": "authorization_code", "code": "x" * 43, "client_secret": "wrong"}

pytestmark = pytest.mark.long


class Sender:
    """One connection. Each request comes from an address of its own, as the trusted proxy tells."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.base_url).port or 0, timeout=30)
        self.host = urlsplit(server.base_url).netloc
        self.statuses: Counter[int] = Counter()

    def token(self, form: dict[str, str], address: str, **more: str) -> str:
        """The reference of the refusal."""
        headers = {**FORM, "Host": self.host, "X-Forwarded-For": address, **more}
        self.connection.request("POST", "/oauth/token", urlencode(form), headers)
        answer = self.connection.getresponse()
        answer.read()
        self.statuses[answer.status] += 1
        return answer.headers["X-Reference"] or ""


def basic(application: Registered) -> str:
    return "Basic " + base64.b64encode(f"{application.client_id}:{application.client_secret}".encode()).decode()


def flood(server: Server, client_id: str, numbers: Iterator[int], sent: Counter[int]) -> None:
    sender = Sender(server)
    for number in numbers:
        sender.token({**WRONG, "client_id": client_id}, f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
    sent.update(sender.statuses)


@pytest.fixture
def server(postgresql: None, redis_server: OwnRedis, launch: Launch) -> Server:
    limits = {"RATE_LIMITS": "off", "REDIS_URL": redis_server.url}
    return launch(TRUSTED_PROXIES="127.0.0.1/32", WEB_CONCURRENCY="2", **limits)


def test_a_flood_of_refused_requests_fills_no_table_and_hides_nothing(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    attacked, other = ApplicationFactory(), ApplicationFactory()
    numbers, lock, statuses = itertools.islice(itertools.count(), REQUESTS), threading.Lock(), Counter[int]()

    def taken() -> Iterator[int]:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            yield number

    attackers = [
        threading.Thread(target=flood, args=(server, attacked.client_id, taken(), statuses)) for _ in range(SENDERS)
    ]
    began = time.monotonic()
    for each in attackers:
        each.start()
    sender = Sender(server)
    proven = [
        sender.token({"grant_type": "authorization_code", "code": "y" * 43}, "192.0.2.1", Authorization=basic(attacked))
        for _ in range(PROVEN)
    ]
    # Forty from one address, and others.
    others = [
        sender.token({**WRONG, "client_id": other.client_id}, "192.0.2.7" if number < 40 else f"192.0.{number}.9")
        for number in range(OTHERS)
    ]
    for each in attackers:
        each.join()
    seconds = time.monotonic() - began
    assert statuses == {401: REQUESTS}

    rows = ActivityRecord.objects.filter(client_id=attacked.client_id)
    strangers = rows.filter(is_proven=False).count()
    told(capsys, f"{REQUESTS} refused in {seconds:.0f} s; rows {rows.count()}, of strangers {strangers}")
    told(capsys, f"rows of budgets {ActivityBudget.objects.filter(client_id=attacked.client_id).count()}")
    hours = 2 + seconds // 3600  # of the clock
    assert 0 < strangers <= hours * (FLOOD + SLOTS * NARROW)
    assert ActivityBudget.objects.filter(client_id=attacked.client_id).count() <= 194
    assert set(proven) <= set(rows.filter(is_proven=True).values_list("reference", flat=True))
    kept = ActivityRecord.objects.filter(client_id=other.client_id).values_list("reference", flat=True)
    assert set(others) <= set(kept)
    assert counted(attacked, "secret_wrong", REQUESTS) == REQUESTS
    assert counted(attacked, "code_unknown", PROVEN) == PROVEN
    assert counted(other, "secret_wrong", OTHERS) == OTHERS


def counted(application: Registered, cause: str, expected: int) -> int:
    """The workers write their counts about once a second."""
    end = time.monotonic() + 30
    while True:
        rows = ActivityCount.objects.filter(client_id=application.client_id, cause=cause)
        number = rows.aggregate(total=Sum("number"))["total"] or 0
        if number >= expected or time.monotonic() > end:
            return int(number)
        time.sleep(0.2)


def told(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n{line}")  # noqa: T201 - what the run is for
