"""The metrics of two workers: they are served at one port, and are right whatever happens to the workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import requests

from tests.databases import OwnRedis
from tests.server import PATIENCE_SECONDS, Server, eventually, free_port, is_open, scrape, serve, value

ROUTE = "/oauth/userinfo"


def test_the_counts_of_all_workers_outlive_a_death_and_end_with_the_service(
    redis_server: OwnRedis, committed: None, tmp_path: Path
) -> None:
    port = free_port()
    variables = {"REDIS_URL": redis_server.url, "METRICS_BIND": f"127.0.0.1:{port}", "TMPDIR": str(tmp_path)}

    def ask(server: Server, times: int, path: str = ROUTE) -> None:
        for _ in range(times):  # each on a connection of its own, so that both workers get some
            requests.get(server.base_url + path, timeout=30)

    def are_counted(count: float) -> None:
        name = "delegated_http_request_duration_seconds_count"
        eventually(count, lambda: value(port, name, method="GET", route=ROUTE, status="4xx"))
        eventually(16.0, lambda: value(port, "delegated_threads"))

    with serve(tmp_path / "server", WEB_CONCURRENCY="2", **variables) as server:
        ask(server, 40)
        ask(server, 1, "/typed-by-mallory")
        are_counted(40.0)
        victim = min(server.workers())
        os.kill(victim, signal.SIGKILL)
        eventually(2, lambda: len(server.workers() - {victim}))
        ask(server, 10)
        are_counted(50.0)

        assert value(port, "delegated_http_requests_in_flight") == 0
        eventually(1.0, lambda: value(port, "delegated_database_up"))
        samples = scrape(port)
        refused = frozenset({"route": ROUTE, "error": "invalid_token", "code": "token_missing"}.items())
        assert samples["delegated_refusals_total", refused] == 50
        assert ("delegated_purge_age_seconds", frozenset()) not in samples, "no purge has ended"
        name = "delegated_http_request_duration_seconds_count"
        assert value(port, name, method="GET", route="none", status="4xx") == 1
        assert "mallory" not in str(samples.keys()), "no label has what somebody typed"
        redis_server.kill()
        eventually(2.0, lambda: (ask(server, 1, "/health/ready"), value(port, "delegated_redis_away_workers"))[1])
        assert requests.get(f"{server.base_url}/metrics", timeout=60).status_code == 404
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.glob("sign-in-metrics-*")) == []
    assert not is_open(port)
