"""Random bytes in headers: no request costs 50 times as much CPU time as the median."""

from __future__ import annotations

import os
import random
import statistics

import pytest

from tests.conftest import Launch
from tests.faults.test_cost_of_hostile_requests import FILLINGS, HEADERS, TARGETS
from tests.meter import Meter, Request

TIMES_THE_MEDIAN = 50
LONGEST = 32_000


def random_header(chance: random.Random) -> bytes:
    name = chance.choice(HEADERS).encode() if chance.random() < 0.9 else chance.randbytes(chance.randrange(1, 40))
    value = b""
    length = int(LONGEST ** chance.random())
    while len(value) < length:
        piece = chance.choice(FILLINGS) if chance.random() < 0.7 else chance.randbytes(chance.randrange(1, 6))
        value += piece * chance.choice((1, 2, 100, length // len(piece) + 1))
    return name + b": " + value[:length].replace(b"\r", b" ").replace(b"\n", b" ")


def random_request(chance: random.Random) -> Request:
    line, body = chance.choice(list(TARGETS.values()))
    headers = [random_header(chance) for _ in range(chance.choice((1, 1, 2, 5)))]
    return Request(repr([header[:60] for header in headers]), line, headers, body)


def check(meter: Meter, requests: int, seed: int) -> None:
    chance = random.Random(seed)
    costs: list[tuple[int, Request]] = []
    for _ in range(requests):
        request = random_request(chance)
        costs.append((meter.cost(request), request))
    limit = TIMES_THE_MEDIAN * statistics.median(cost for cost, _ in costs)
    suspected = [request for cost, request in costs if cost > limit]
    dear = [request for request in suspected if min(meter.cost(request) for _ in range(3)) > limit]
    assert [f"seed {seed}: {request.line!r} {request.label}" for request in dear] == []


def test_random_headers_cost_little(launch: Launch) -> None:
    check(Meter(launch()), 500, seed=0)


@pytest.mark.long
def test_random_headers_cost_little_in_the_long_run(launch: Launch) -> None:
    """`FUZZ_SEED` repeats a run."""
    check(Meter(launch()), 20_000, int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(1_000_000)))
