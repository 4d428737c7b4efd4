"""SIGHUP and SIGTERM under load. `tests.faults.load` defines a failure."""

from __future__ import annotations

import signal
import socket
from typing import Any

import pytest

from tests.conftest import Launch
from tests.factories import ApplicationFactory
from tests.faults.load import CALLERS, Redemptions
from tests.server import Server, socket_unit

PLENTY = 5000


@pytest.fixture
def two_workers(redis_server: Any) -> dict[str, str]:
    return {"WEB_CONCURRENCY": "2", "REDIS_URL": redis_server.url}


def stop(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(120) == 0


def test_a_reload_fails_no_request(launch: Launch, two_workers: dict[str, str]) -> None:
    server = launch(**two_workers)
    redemptions = Redemptions(server, ApplicationFactory(), PLENTY)
    before = server.workers()

    def reload() -> None:
        server.process.send_signal(signal.SIGHUP)
        redemptions.wait_until(lambda: len(server.workers()) == 2 and not server.workers() & before)
        redemptions.go_on(100)

    redemptions.run_during(reload, to_the_end=False)
    redemptions.check_that_none_failed()


def test_a_stop_costs_each_caller_one_connection_at_most(launch: Launch, two_workers: dict[str, str]) -> None:
    """Without a socket unit, connections that are not accepted yet are reset: at most one for each caller."""
    server = launch(**two_workers)
    redemptions = Redemptions(server, ApplicationFactory(), PLENTY)
    redemptions.run_during(lambda: stop(server), to_the_end=False)
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
        redemptions = Redemptions(server, ApplicationFactory(), PLENTY)

        def restart() -> None:
            stop(server)
            launch(**options)
            redemptions.go_on(100)

        redemptions.run_during(restart, to_the_end=False)
        redemptions.check_that_none_failed()
