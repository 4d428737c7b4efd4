"""Workers count a large limit together, in blocks of 1 %: it is never exceeded. D21; L9."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from redis import Redis

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import OwnRedis
from tests.factories import ApplicationFactory, Registered, TokenFactory
from tests.faults.load import Caller, Unanswered, codes_for
from tests.server import Server

WORKERS, THREADS = 2, 10
LIMIT, BLOCK = 600, 6  # of a smaller limit, each event is counted in Redis
SPENT = 480
LIMIT_SECONDS = 40  # for the requests of one test, on a busy machine


def application_within_a_window() -> Registered:
    """Its window, which django-ratelimit places by a checksum of its key, does not end during the test."""
    while True:
        application: Registered = ApplicationFactory()
        if (zlib.crc32(str(application.row.pk).encode()) - int(time.time())) % 60 > LIMIT_SECONDS:
            return application


def serve(launch: Launch, redis: OwnRedis, name: str) -> Server:
    rates = {"RATE_LIMITS": "on", f"RATE_{name}": f"{LIMIT}/m"}
    return launch(WEB_CONCURRENCY=str(WORKERS), REDIS_URL=redis.url, **rates)


def spend_most(redis: OwnRedis) -> Callable[[], int]:
    """Count SPENT events of others. Returns a function that tells how often a worker has counted since."""
    with Redis(port=redis.port) as client:
        [key] = [key for key in client.scan_iter() if client.get(key) == str(BLOCK).encode()]
        client.incrby(key, SPENT)

    def commands() -> int:
        with Redis(port=redis.port) as client:
            return int(client.info("commandstats")["cmdstat_incrby"]["calls"])

    before = commands()
    return lambda: commands() - before


def at_once(call: Callable[[str], int], values: list[str]) -> list[int]:
    """The statuses of ten callers; 0 for no answer."""

    def status_of(value: str) -> int:
        try:
            return call(value)
        except Unanswered:
            return 0

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(status_of, values))


@contract("D21.userinfo", "D21.redis", "D21.blocks")
def test_a_worker_that_is_killed_loses_less_than_a_block(launch: Launch, redis_server: OwnRedis) -> None:
    """And no event more than the limit is admitted. Each call has a connection of its own."""
    server = serve(launch, redis_server, "USERINFO")
    token = TokenFactory(application=application_within_a_window().row).raw

    def read(requests: int) -> Counter[int]:
        return Counter(at_once(lambda token: Caller(server, keeps=False).userinfo(token).status, [token] * requests))

    seen = read(1)
    counted = spend_most(redis_server)
    seen += read(40)
    assert seen == {200: 41}
    assert counted() < 40
    os.kill(min(server.workers()), signal.SIGKILL)
    seen += read(160)
    left = LIMIT - SPENT
    # The killed worker, and each of the two that are left at the end, may have an unused rest of a block.
    assert left - (WORKERS + 1) * (BLOCK - 1) - seen[0] <= seen[200] <= left
    assert seen[429] > 0


@contract("D21.token", "D21.blocks")
def test_the_code_of_an_exchange_beyond_the_limit_is_not_spent(launch: Launch, redis_server: OwnRedis) -> None:
    server, application = serve(launch, redis_server, "TOKEN"), application_within_a_window()

    def exchange(code: str) -> int:
        return Caller(server, keeps=False).exchange(application, code).status

    first, *codes = codes_for(application, 161)
    assert exchange(first) == 200
    counted = spend_most(redis_server)
    answers = dict(zip(codes, at_once(exchange, codes), strict=True))
    left = LIMIT - SPENT - 1
    assert left - WORKERS * (BLOCK - 1) <= list(answers.values()).count(200) <= left
    assert counted() < len(codes)
    refused = next(code for code, status in answers.items() if status == 429)
    limited = Caller(server).exchange(application, refused)
    assert limited.status == 429
    assert 1 <= int(limited.headers["Retry-After"]) <= 60
    with Redis(port=redis_server.port) as client:
        client.flushall()
    answers_again = [exchange(refused) for _ in range(WORKERS * BLOCK)]
    assert answers_again.count(200) == 1
