"""The metrics of two workers: they are served at one port, and are right whatever happens to the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import Launch
from tests.databases import Cluster
from tests.scraping import eventually, scrape, value
from tests.server import Server, children_of, free_port, is_open

Metered = tuple[Server, int]
ROUTE = "/oauth/userinfo"


@pytest.fixture
def metered(launch: Launch, redis_server: Any, tmp_path: Path) -> Metered:
    """A server with two workers, and the port of its metrics. Its temporary files are in `tmp_path`."""
    port = free_port()
    server = launch(
        WEB_CONCURRENCY="2", REDIS_URL=redis_server.url, METRICS_BIND=f"127.0.0.1:{port}", TMPDIR=str(tmp_path)
    )
    eventually(14.0, lambda: value(port, "delegated_threads"))
    return server, port


def ask(server: Server, times: int) -> None:
    """Requests without a token, each on a connection of its own, so that both workers get some."""
    for _ in range(times):
        assert requests.get(server.base_url + ROUTE, timeout=30).status_code == 401


def kill_worker(server: Server, victim: int) -> None:
    """Returns when another worker has taken its place."""
    os.kill(victim, signal.SIGKILL)
    eventually(2, lambda: len(server.workers() - {victim}))


def answered(port: int) -> Callable[[], float]:
    name = "delegated_http_request_duration_seconds_count"
    return lambda: value(port, name, method="GET", route=ROUTE, status="4xx")


def test_the_counts_of_all_workers_outlive_a_death_and_a_reload(metered: Metered, tmp_path: Path) -> None:
    server, port = metered
    ask(server, 40)
    eventually(40.0, answered(port))

    for victim in sorted(server.workers()):  # one of them serves the metrics
        kill_worker(server, victim)
        eventually(14.0, lambda: value(port, "delegated_threads"))
    eventually(40.0, answered(port))
    ask(server, 10)
    eventually(50.0, answered(port))

    before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    eventually(True, lambda: len(server.workers()) == 2 and not server.workers() & before)
    eventually(14.0, lambda: value(port, "delegated_threads"))
    ask(server, 10)
    eventually(60.0, answered(port))

    eventually(0.0, lambda: value(port, "delegated_http_requests_in_flight"))  # read each second
    samples = scrape(port)
    refused = frozenset({"route": ROUTE, "error": "invalid_token", "code": "token_missing"}.items())
    assert samples["delegated_refusals_total", refused] == 60
    assert samples["delegated_database_up", frozenset()] == 1
    (folder,) = tmp_path.glob("sign-in-metrics-*")
    assert len(list(folder.glob("counter_*.db"))) <= 4, "a worker takes over the files of one that has ended"


def test_the_metrics_are_at_their_port_alone_and_leave_nothing_behind(metered: Metered, tmp_path: Path) -> None:
    server, port = metered
    assert requests.get(f"{server.base_url}/metrics", timeout=30).status_code == 404
    elsewhere = requests.get(f"http://127.0.0.1:{port}/oauth/userinfo", timeout=30)
    assert elsewhere.status_code == 404
    assert elsewhere.text == "There is nothing at this path. The metrics are at /metrics.\n"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(40) == 0
    assert list(tmp_path.glob("sign-in-metrics-*")) == []
    assert not is_open(port)


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a session that has ended meanwhile
            os.kill(pid, number)


def test_a_database_that_is_stopped_is_told_and_delays_no_other_metric(own_postgresql: Cluster, launch: Launch) -> None:
    port = free_port()
    launch(METRICS_BIND=f"127.0.0.1:{port}")
    eventually(1.0, lambda: value(port, "delegated_database_up"))
    stopped = [own_postgresql.process.pid, *children_of(own_postgresql.process.pid)]
    send(stopped, signal.SIGSTOP)
    try:
        eventually(0.0, lambda: value(port, "delegated_database_up"))
        assert value(port, "delegated_threads") == 7
    finally:
        send(stopped, signal.SIGCONT)
    eventually(1.0, lambda: value(port, "delegated_database_up"))


def test_a_redis_that_is_away_is_told(metered: Metered, redis_server: Any) -> None:
    server, port = metered
    redis_server.kill()
    eventually(2.0, lambda: (ask_ready(server), value(port, "delegated_redis_away_workers"))[1])


def ask_ready(server: Server) -> None:
    requests.get(f"{server.base_url}/health/ready", timeout=30)
