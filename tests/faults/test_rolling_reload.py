"""A reload keeps the old workers until new ones have answered, and systemd learns of a start no earlier."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Launch
from tests.faults.gaps import Gaps
from tests.faults.load import Caller
from tests.peers import wait_until
from tests.server import Server

# The modules of the service are about 120,000.
EXAMINED_OBJECTS = 30_000


@pytest.fixture
def late(tmp_path: Path) -> Path:
    return tmp_path / "late"


@pytest.fixture
def served(launch: Launch, late: Path, redis_server: Any) -> Server:
    return launch(wsgi="tests.wsgi.late", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url, LATE=str(late))


def begin_reload(server: Server, late: Path) -> set[int]:
    """The old workers. The new ones have begun to start and wait for the end of `late`."""
    before = server.workers()
    late.touch()
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(server.workers() - before) == 2)
    return before


def are_replaced(server: Server, before: set[int]) -> bool:
    return len(server.workers()) == 2 and not server.workers() & before


def ready(server: Server) -> int:
    """How many workers have answered their own request. Of a test that opens no such page."""
    return server.log.count('"route":"/accounts/sign-in"')


def still_serves(server: Server, before: set[int]) -> None:
    """For two seconds: the signal to leave has come by then."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert status(server) == 200
    assert before < server.workers()


def status(server: Server, path: str = "/health/live") -> int:
    return Caller(server, keeps=False).call("GET", path).status


def test_the_old_workers_answer_until_the_new_ones_are_ready(served: Server, late: Path) -> None:
    before = begin_reload(served, late)
    still_serves(served, before)
    late.unlink()
    wait_until(lambda: are_replaced(served, before))
    assert status(served, "/accounts/sign-in") == 200


def test_a_new_worker_that_is_killed_costs_no_answer(served: Server, late: Path) -> None:
    before = begin_reload(served, late)
    os.kill(max(served.workers() - before), signal.SIGKILL)
    late.unlink()
    end = time.monotonic() + 300
    while not are_replaced(served, before):  # the second old worker leaves after 30 seconds
        assert time.monotonic() < end
        assert status(served) == 200


def test_workers_that_are_never_ready_delay_a_stop_by_the_timeout_only(served: Server, late: Path) -> None:
    begin_reload(served, late)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(300) == 0


def test_a_worker_that_took_a_killed_ones_place_ends_no_worker_of_a_later_reload(served: Server, late: Path) -> None:
    wait_until(lambda: ready(served) == 2)
    os.kill(max(served.workers()), signal.SIGKILL)
    wait_until(lambda: ready(served) == 3)
    before = begin_reload(served, late)
    still_serves(served, before)
    late.unlink()
    wait_until(lambda: are_replaced(served, before))


def test_systemd_is_told_when_the_first_worker_has_answered(launch: Launch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        late = tmp_path / "late"
        late.touch()
        server = launch(
            wsgi="tests.wsgi.late", LATE=str(late), NOTIFY_SOCKET=str(tmp_path / "notify"), is_awaited=False
        )
        wait_until(lambda: len(server.workers()) == 1)
        systemd.settimeout(1)
        with pytest.raises(TimeoutError):
            systemd.recv(100)
        late.unlink()
        systemd.settimeout(60)
        assert systemd.recv(100) == b"READY=1"
        assert '"route":"/health/live"' in server.log
        assert status(server) == 200
        os.kill(min(server.workers()), signal.SIGKILL)
        wait_until(lambda: ready(server) == 2)
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):  # once only
            systemd.recv(100)


def test_a_full_garbage_collection_of_a_worker_examines_few_objects(launch: Launch) -> None:
    server = launch(wsgi="tests.wsgi.collecting")
    assert status(server, "/accounts/sign-in") == 200
    assert int(Caller(server, keeps=False).call("GET", "/collect").body) < EXAMINED_OBJECTS


def told_at(worker: int) -> float:
    """When the worker last told gunicorn that it runs: the time of a file without a name."""
    (file,) = (each for each in Path(f"/proc/{worker}/fd").iterdir() if "wgunicorn-" in str(each.resolve()))
    return file.stat().st_mtime


def test_a_worker_tells_gunicorn_at_most_once_a_second_that_it_runs(launch: Launch) -> None:
    server = launch(WEB_CONCURRENCY="1")
    (worker,) = server.workers()
    told, began = {told_at(worker)}, time.monotonic()
    for _ in range(100):
        assert status(server) == 200
        told.add(told_at(worker))
    assert len(told) <= 2 + time.monotonic() - began, "however many requests it answers"
    last = told_at(worker)
    wait_until(lambda: told_at(worker) > last)


@pytest.mark.long
def test_a_reload_under_load_leaves_no_gap(launch: Launch, redis_server: Any) -> None:
    server, another = (launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url) for _ in range(2))
    before = server.workers()
    with Gaps(server) as gaps, Gaps(another) as of_another:
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: are_replaced(server, before))
    allowed = max(0.3, 2 * of_another.longest_seconds)  # on a busy machine, a server has gaps without a reload
    print(f"longest gap {gaps.longest_seconds:.2f} s, allowed {allowed:.2f} s")  # noqa: T201 - shown by `-rP`
    assert gaps.failed == {}
    assert gaps.longest_seconds < allowed
