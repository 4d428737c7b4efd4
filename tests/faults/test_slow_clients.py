"""Slow clients behind the documented nginx do not delay other clients.

Without a proxy they can; see docs/operations.md.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from tests.conftest import Launch
from tests.faults.load import Caller
from tests.peers import wait_until
from tests.server import Server

ALICE, MALLORY = "127.0.0.2", "127.0.0.3"
MANY = 60
DESCRIPTORS = 64
QUESTION = b"GET /oauth/userinfo HTTP/1.1\r\nHost: HOST\r\n\r\n"


class Slow:
    """A connection of Mallory's that sends exactly the given bytes, and reads nothing."""

    def __init__(self, server: Server) -> None:
        self.host = urlsplit(server.base_url).netloc.encode()
        port = int(self.host.rpartition(b":")[2])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(MALLORY, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)

    def send(self, text: bytes) -> None:
        self.socket.sendall(text.replace(b"HOST", self.host))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"GET /oau", b""),
        (QUESTION[:-2], b"X: 1\r\n"),
        (b"POST /oauth/token HTTP/1.1\r\nHost: HOST\r\nContent-Length: 30\r\n\r\ngrant_type", b"="),
        (b"GET /health/live HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", b""),
        (b"GET /static/css/site.css HTTP/1.1\r\nHost: HOST\r\n\r\n" * 10, b""),
    ],
    ids=["silent", "half a line", "headers that trickle", "half a body", "never closed", "answers that are not read"],
)
def test_slow_clients_keep_nobody_waiting(server_behind_nginx: Server, first: bytes, then: bytes) -> None:
    """They are many more than the threads of the service, and occupy nginx only, for longer than the others ask."""
    with ExitStack() as opened:
        clients = [Slow(server_behind_nginx) for _ in range(MANY)]
        for client in clients:
            opened.enter_context(client.socket)
            client.send(first)
        for _ in range(3):
            for client in clients:
                with suppress(ConnectionError):  # a busy machine took so long that nginx gave it up
                    client.send(then)
            assert Caller(server_behind_nginx, address=ALICE).userinfo("x").status == 401


def test_more_connections_than_descriptors_end_no_worker(launch: Launch) -> None:
    server = launch(under=["prlimit", f"--nofile={DESCRIPTORS}"])
    before = server.workers()
    with ExitStack() as opened:
        for _ in range(2 * DESCRIPTORS):
            client = Slow(server)
            opened.enter_context(client.socket)
            client.send(QUESTION)

    def is_answered() -> bool:
        with suppress(OSError):
            return Caller(server).userinfo("x").status == 401
        return False

    wait_until(is_answered)
    assert server.workers() == before
