"""A worker, PostgreSQL, Redis or a secret fails or is replaced while applications redeem codes. D13, D19, D21, L9.

Nothing that was acknowledged is lost, no code is redeemed twice, and afterwards the service is as before.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Launch, run_here
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.factories import ApplicationFactory, Registered
from tests.faults.load import CALLERS, Caller, Redemptions
from tests.server import PATIENCE_SECONDS, Server, serve, socket_unit, wait_until

AWAY, BROKEN_OFF = {"503 temporarily_unavailable"}, {"Unanswered"}
# The limits are counted, and reached by bad tokens only.
MANY = "1000000/d"
LIMITS = {"RATE_LIMITS": "on", "RATE_TOKEN": MANY, "RATE_USERINFO": MANY, "RATE_USERINFO_FAILURES": "2/30d"}


@dataclass
class Site:
    server: Server
    postgresql: Cluster
    redis: OwnRedis
    redemptions: Redemptions


@pytest.fixture(scope="module")
def served(cluster: Cluster, shared_redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers. Each test leaves it as it was."""
    variables = {"DATABASE_URL": cluster.url, "REDIS_URL": shared_redis.url, "WEB_CONCURRENCY": "2", **LIMITS}
    with serve(tmp_path_factory.mktemp("served"), **variables) as server:
        yield server


@pytest.fixture
def site(own_postgresql: Cluster, request: pytest.FixtureRequest) -> Site:
    # Not parameters, which would start them before a skip.
    server, redis = request.getfixturevalue("served"), request.getfixturevalue("shared_redis")
    return Site(server, own_postgresql, redis, Redemptions(server, ApplicationFactory()))


def kill_the_busiest_worker(site: Site) -> None:
    """It may have accepted nearly all connections, and to kill the other would disturb nobody."""
    before = {worker: cpu_ticks(worker) for worker in site.server.workers()}
    site.redemptions.go_on(50)
    os.kill(max(before, key=lambda worker: cpu_ticks(worker) - before[worker]), signal.SIGKILL)
    site.redemptions.wait_until(lambda: len(site.server.workers()) == 2 and site.server.workers() != before.keys())


def cpu_ticks(worker: int) -> int:
    """The CPU time of all threads of the process."""
    values = Path(f"/proc/{worker}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(values[11]) + int(values[12])  # utime, stime


def reload(site: Site) -> None:
    before = site.server.workers()
    site.server.process.send_signal(signal.SIGHUP)
    site.redemptions.wait_until(lambda: len(site.server.workers()) == 2 and not site.server.workers() & before)


def kill_postgresql(site: Site) -> None:
    site.postgresql.kill()
    site.postgresql.start()


def kill_a_session_of_postgresql(site: Site) -> None:
    site.postgresql.kill_session()


def kill_redis(site: Site) -> None:
    site.redis.kill()
    site.redemptions.go_on(75)
    site.redis.start()


def silence_redis(site: Site) -> None:
    site.redis.pause()
    site.redemptions.go_on(75)
    site.redis.go_on()


def rotate_the_secret(site: Site) -> None:
    """The old one works for another hour, and the new one at once."""
    application = site.redemptions.application
    result = run_here("application", "rotate-secret", application.client_id, "--overlap", "1h", "--json")
    site.redemptions.go_on(75)
    site.redemptions.application = Registered(application.row, json.loads(result.stdout)["client_secret"])


@contract("2.2/use", "D13.no-row", "D19/temporarily_unavailable", "D21.away", "O.application.rotate-secret")
@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        (kill_the_busiest_worker, BROKEN_OFF),
        (reload, set()),
        (kill_postgresql, AWAY),
        (kill_a_session_of_postgresql, AWAY),
        (kill_redis, set()),
        (silence_redis, set()),
        (rotate_the_secret, set()),
    ],
)
def test_nothing_is_lost_and_all_goes_on(site: Site, fault: Callable[[Site], None], trouble: set[str]) -> None:
    """While PostgreSQL is away, every response is 503 with Retry-After. No other fault but a kill ends a connection."""
    redemptions = site.redemptions

    redemptions.run_during(lambda: fault(site))
    assert set(redemptions.trouble) <= trouble
    assert redemptions.refused == 0 or trouble
    redemptions.check_books()
    wait_until(lambda: Caller(site.server).call("GET", "/health/ready").json()["redis"] == "ok")
    wait_until(lambda: Caller(site.server).userinfo("bad").status == 429)
    assert "Traceback" not in site.server.log


# SIGTERM --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_workers(redis_server: Any) -> dict[str, str]:
    return {"WEB_CONCURRENCY": "2", "REDIS_URL": redis_server.url}


def stop(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_a_stop_costs_each_caller_one_connection_at_most(launch: Launch, two_workers: dict[str, str]) -> None:
    """Without a socket unit, connections that are not accepted yet are reset: at most one for each caller."""
    server = launch(**two_workers)
    redemptions = Redemptions(server, ApplicationFactory())
    redemptions.run_during(lambda: stop(server), ends=True)
    assert set(redemptions.trouble) <= {"NotListening", "Unanswered"}
    assert redemptions.trouble["Unanswered"] <= CALLERS
    assert redemptions.refused == 0
    redemptions.server = launch()
    redemptions.check_books()


def test_a_restart_behind_a_port_of_systemd_refuses_nobody(launch: Launch, two_workers: dict[str, str]) -> None:
    """New connections wait for the next server."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as port:
        options = {**socket_unit(port), **two_workers}
        server = launch(**options)
        redemptions = Redemptions(server, ApplicationFactory())

        def restart() -> None:
            stop(server)
            launch(**options)

        redemptions.run_during(restart)
        redemptions.check_that_none_failed()
