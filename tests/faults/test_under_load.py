"""Workers, PostgreSQL or Redis fail or a purge runs: codes, limits and metrics stay right. D13, D19, D21, L9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import pytest
import requests
from django.utils import timezone
from redis import Redis
from urllib3.exceptions import HTTPError

from oauth_bridge.management import purging
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.models.activity import PurgeRun
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.factories import ApplicationFactory, TokenFactory
from tests.faults.load import Caller, Redemptions, codes_for
from tests.server import ROOT, Server, environment, eventually, free_port, is_open, scrape, serve, value, wait_until

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
def test_the_limit_holds_and_a_killed_worker_loses_less_than_a_block(launch: Launch, redis_server: OwnRedis) -> None:
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


ROUTE = "/oauth/userinfo"


def test_counts_outlive_workers_but_not_the_service(redis_server: OwnRedis, committed: None, tmp_path: Path) -> None:
    PurgeRun.objects.all().delete()
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
        assert server.process.wait(60) == 0
    assert list(tmp_path.glob("sign-in-metrics-*")) == []
    assert not is_open(port)


def start(folder: Path) -> subprocess.Popen[str]:
    command, pipes = [sys.executable, "manage.py", "purge"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment(folder), text=True, **pipes)  # type: ignore[call-overload]


def deleted(process: subprocess.Popen[str]) -> int:
    output, log = process.communicate(timeout=600)
    assert (output, process.returncode) == ("", 0)
    lines = list(map(json.loads, log.splitlines()))
    assert lines[-1]["message"] == "The purge is finished."
    assert lines[-1]["total"] == sum(line["rows"] for line in lines if line["message"] == "A batch was deleted.")
    return int(lines[-1]["total"])


@pytest.mark.usefixtures("postgresql")
@contract("O.purge")
def test_two_purges_at_once_delete_each_row_once_and_disturb_nobody(launch: Launch, tmp_path: Path) -> None:
    list(purging.batches(timezone.now()))  # what other tests left
    finished_before = purging.last_finished()
    old, server = ApplicationFactory(), launch()
    number, long_ago = 10_000, timezone.now() - timedelta(days=2)  # more than a batch
    codes_for(old, number, issued_at=long_ago, expires_at=long_ago)
    redemptions = Redemptions(server, ApplicationFactory())

    def purge() -> None:
        both = [start(tmp_path), start(tmp_path)]
        assert sum(map(deleted, both)) == number

    redemptions.run_during(purge)
    redemptions.check_that_none_failed()
    assert not AuthorizationCode.objects.filter(application=old.row).exists()
    assert purging.last_finished() != finished_before
