"""`kill -9` in the middle of 1,000 exchanges: no code is redeemed twice, no issued token is lost. D13."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster
from tests.factories import ApplicationFactory
from tests.load import Redemptions, statuses

EXCHANGES = 1000


@contract("2.2/use", "D13.no-row")
def test_a_worker_is_killed_and_another_takes_its_place(launch: Launch, redis_server: Any) -> None:
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), EXCHANGES)
    victim = 0

    def kill_the_busiest() -> None:
        """One worker may have accepted nearly all connections; to kill the other would disturb nobody."""
        nonlocal victim
        before, done = {worker: cpu_ticks(worker) for worker in server.workers()}, redemptions.done
        redemptions.wait_until(lambda: redemptions.done >= done + EXCHANGES // 10)
        victim = max(before, key=lambda worker: cpu_ticks(worker) - before[worker])
        os.kill(victim, signal.SIGKILL)

    redemptions.run_during(kill_the_busiest)
    redemptions.check_books()
    assert set(redemptions.trouble) <= {"Unanswered"}, "the other worker goes on, and the port stays open"
    redemptions.wait_until(lambda: len(server.workers() - {victim}) == 2)


def cpu_ticks(worker: int) -> int:
    """The CPU time of all threads of the process."""
    values = Path(f"/proc/{worker}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(values[11]) + int(values[12])  # utime, stime


def killed(postgresql: Cluster) -> None:
    postgresql.kill()
    postgresql.start()


def restarted(postgresql: Cluster) -> None:
    postgresql.stop()
    postgresql.start()


@contract("2.2/use", "D13.no-row", "D19/temporarily_unavailable")
@pytest.mark.parametrize("fault", [killed, Cluster.kill_session, restarted], ids=["all", "one session", "restart"])
def test_postgresql_dies_and_the_service_is_back_when_it_is(
    fault: Callable[[Cluster], None], own_postgresql: Cluster, launch: Launch, redis_server: Any
) -> None:
    """Meanwhile every response is 503 with Retry-After, and no connection is reset."""
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), EXCHANGES)
    redemptions.run_during(lambda: fault(own_postgresql))
    redemptions.check_books()
    assert set(redemptions.trouble) == {"503 temporarily_unavailable"}


@contract("D19/temporarily_unavailable")
def test_a_restart_of_postgresql_between_two_requests_fails_neither(own_postgresql: Cluster, launch: Launch) -> None:
    """Every thread has a closed connection and detects that before using it."""
    server = launch()
    redemptions = Redemptions(server, ApplicationFactory(), 100)
    redemptions.run_during(lambda: None)
    restarted(own_postgresql)
    assert statuses(server, redemptions.redeemed.values()) == {200: 100}
