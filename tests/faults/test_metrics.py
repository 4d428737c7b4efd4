"""The metrics of two workers: they are served at one port, and are right whatever happens to the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from tests.own_redis import OwnRedis
from tests.scraping import eventually, scrape, value
from tests.server import Server, free_port, is_open, serve

ROUTE = "/oauth/userinfo"


class Metered(NamedTuple):
    """A server with two workers, the port of its metrics, and the folder of its temporary files."""

    server: Server
    port: int
    folder: Path
    redis: OwnRedis


@pytest.fixture(scope="module")
def metered(shared_redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    """One for all tests: the last one ends it."""
    folder, port = tmp_path_factory.mktemp("metered"), free_port()
    variables = {"REDIS_URL": shared_redis.url, "METRICS_BIND": f"127.0.0.1:{port}", "TMPDIR": str(folder)}
    with serve(folder / "server", WEB_CONCURRENCY="2", **variables) as server:
        eventually(14.0, lambda: value(port, "delegated_threads"))
        yield Metered(server, port, folder, shared_redis)


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


def test_the_counts_of_all_workers_outlive_a_death_and_a_reload(metered: Metered) -> None:
    server, port, folder, _ = metered
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
    (counted,) = folder.glob("sign-in-metrics-*")
    assert len(list(counted.glob("counter_*.db"))) <= 4, "a worker takes over the files of one that has ended"


def test_a_redis_that_is_away_is_told(metered: Metered) -> None:
    server, port, _, redis = metered
    redis.kill()
    eventually(2.0, lambda: (ask_ready(server), value(port, "delegated_redis_away_workers"))[1])


def ask_ready(server: Server) -> None:
    requests.get(f"{server.base_url}/health/ready", timeout=60)


def test_the_metrics_are_at_their_port_alone_and_a_stop_leaves_nothing_behind(metered: Metered) -> None:
    server, port, folder, _ = metered
    assert requests.get(f"{server.base_url}/metrics", timeout=60).status_code == 404
    elsewhere = requests.get(f"http://127.0.0.1:{port}/oauth/userinfo", timeout=60)
    assert elsewhere.status_code == 404
    assert elsewhere.text == "There is nothing at this path. The metrics are at /metrics.\n"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert list(folder.glob("sign-in-metrics-*")) == []
    assert not is_open(port)
