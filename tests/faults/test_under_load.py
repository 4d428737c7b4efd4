"""Workers, PostgreSQL or Redis fail or are replaced while applications redeem codes. D13, D19, D21, L9."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

from redis import Redis
from urllib3.exceptions import HTTPError

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.factories import ApplicationFactory, TokenFactory
from tests.faults.load import Caller, Redemptions
from tests.server import wait_until

# The limits are counted, and reached by bad tokens only.
MANY = "1000000/d"
LIMITS = {"RATE_LIMITS": "on", "RATE_TOKEN": MANY, "RATE_USERINFO": MANY, "RATE_USERINFO_FAILURES": "2/30d"}


@contract("2.2/use", "D13.no-row", "D19/temporarily_unavailable", "D21.away")
def test_nothing_is_lost_and_all_goes_on(own_postgresql: Cluster, redis_server: OwnRedis, launch: Launch) -> None:
    server = launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="2", **LIMITS)

    def replace_workers(end: Callable[[set[int]], object]) -> None:
        before = server.workers()
        end(before)
        redemptions.wait_until(lambda: len(server.workers()) == 2 and not server.workers() & before)

    def restart(other: Cluster | OwnRedis, done_meanwhile: int) -> None:
        other.kill()
        redemptions.go_on(done_meanwhile)
        other.start()

    for fault, trouble in (
        (lambda: replace_workers(lambda pids: [os.kill(pid, signal.SIGKILL) for pid in pids]), {"ProtocolError"}),
        (lambda: replace_workers(lambda _pids: server.process.send_signal(signal.SIGHUP)), set()),
        (lambda: restart(own_postgresql, 0), {"503 temporarily_unavailable"}),
        (lambda: restart(redis_server, 75), set()),
    ):
        redemptions = Redemptions(server, ApplicationFactory())
        redemptions.run_during(fault)
        assert set(redemptions.trouble) <= trouble
        assert redemptions.refused == 0 or trouble
        redemptions.check_books()
        wait_until(lambda: Caller(server).call("GET", "/health/ready").json()["redis"] == "ok")
        wait_until(lambda: Caller(server).userinfo("bad").status == 429)
        assert "Traceback" not in server.log


WORKERS, THREADS = 2, 10
LIMIT, BLOCK = 600, 6  # of a smaller limit, each event is counted in Redis
SPENT = 480


@contract("D21.userinfo", "D21.redis", "D21.blocks")
def test_no_more_than_the_limit_is_admitted_and_a_killed_worker_loses_less_than_a_block(
    launch: Launch, redis_server: OwnRedis
) -> None:
    rates = {"RATE_LIMITS": "on", "RATE_USERINFO": f"{LIMIT}/m"}
    server = launch(WEB_CONCURRENCY=str(WORKERS), REDIS_URL=redis_server.url, **rates)
    # Its window, which django-ratelimit places by a checksum of its key, lasts for another 50 seconds.
    application = next(
        each.row
        for each in iter(ApplicationFactory, None)
        if (crc32(str(each.row.pk).encode()) - int(time.time())) % 60 > 50
    )
    token, caller = TokenFactory(application=application).raw, Caller(server, keeps=False)

    def ask(_number: int) -> int:
        try:
            return caller.userinfo(token).status
        except HTTPError:
            return 0

    def read(requests: int) -> Counter[int]:
        with ThreadPoolExecutor(THREADS) as pool:
            return Counter(pool.map(ask, range(requests)))

    seen = read(1)
    with Redis(port=redis_server.port) as client:
        [key] = [key for key in client.scan_iter() if client.get(key) == str(BLOCK).encode()]
        client.incrby(key, SPENT)  # events of others
        client.config_resetstat()
        seen += read(40)
        assert seen == {200: 41}
        assert client.info("commandstats")["cmdstat_incrby"]["calls"] < 40
    os.kill(min(server.workers()), signal.SIGKILL)
    seen += read(160)
    left = LIMIT - SPENT
    # The killed worker, and each of the two that are left at the end, may have an unused rest of a block.
    assert left - (WORKERS + 1) * (BLOCK - 1) - seen[0] <= seen[200] <= left
    assert seen[429] > 0
