"""Workers, PostgreSQL or Redis fail or are replaced while applications redeem codes. D13, D19, D21, L9."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.factories import ApplicationFactory
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
