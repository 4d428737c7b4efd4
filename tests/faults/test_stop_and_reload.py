"""SIGHUP and SIGTERM under load. `tests.faults.load` defines a failure."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Launch
from tests.factories import ApplicationFactory
from tests.faults.load import CALLERS, Redemptions
from tests.server import socket_unit

PLENTY = 5000


@pytest.fixture
def port() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield listener


def test_a_reload_fails_no_request(launch: Launch, redis_server: Any) -> None:
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), PLENTY)
    before = server.workers()

    def reload() -> None:
        server.process.send_signal(signal.SIGHUP)
        redemptions.wait_until(lambda: len(server.workers()) == 2 and not server.workers() & before)
        seen = redemptions.done
        redemptions.wait_until(lambda: redemptions.done > seen + 100)

    redemptions.run_during(reload, to_the_end=False)
    assert redemptions.trouble == {}
    assert redemptions.refused == 0
    redemptions.check_books()


def test_a_stop_costs_each_caller_one_connection_at_most(launch: Launch, redis_server: Any) -> None:
    """Without a socket unit, connections that are not accepted yet are reset: at most one for each caller."""
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), PLENTY)

    def stop() -> None:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0

    redemptions.run_during(stop, to_the_end=False)
    assert set(redemptions.trouble) <= {"NotListening", "Unanswered"}
    assert redemptions.trouble["Unanswered"] <= CALLERS
    assert redemptions.refused == 0
    redemptions.server = launch()
    redemptions.check_books()


def test_a_restart_behind_a_port_of_systemd_refuses_nobody(
    port: socket.socket, launch: Launch, redis_server: Any
) -> None:
    """New connections wait for the next server."""
    options = {**socket_unit(port), "WEB_CONCURRENCY": "2", "REDIS_URL": redis_server.url}
    server = launch(**options)
    redemptions = Redemptions(server, ApplicationFactory(), PLENTY)

    def restart() -> None:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
        launch(**options)
        seen = redemptions.done
        redemptions.wait_until(lambda: redemptions.done > seen + 100)

    redemptions.run_during(restart, to_the_end=False)
    assert redemptions.trouble == {}
    assert redemptions.refused == 0
    redemptions.check_books()
