"""Slow clients behind the documented nginx do not delay other clients.

Without a proxy they can; see docs/operations.md.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from tests.conftest import Launch
from tests.peers import wait_until
from tests.server import Server

ALICE, MALLORY = "127.0.0.2", "127.0.0.3"
MANY = 60
DESCRIPTORS = 64
QUESTION = b"GET /oauth/userinfo HTTP/1.1\r\nHost: HOST\r\n\r\n"
FORM = b"POST /oauth/token HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-www-form-urlencoded\r\n"


class Client:
    """A connection from a loopback address that sends exactly the given bytes."""

    def __init__(self, server: Server, address: str) -> None:
        self.host = urlsplit(server.base_url).netloc.encode()
        port = int(self.host.rpartition(b":")[2])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, text: bytes) -> None:
        self.socket.sendall(text.replace(b"HOST", self.host))

    def answers(self, count: int = 1) -> bytes:
        """The received bytes once `count` responses are complete; each ends with a JSON object."""
        received = b""
        while received.count(b"HTTP/1.1 ") < count or not received.endswith(b"}"):
            part = self.socket.recv(65536)
            assert part, received
            received += part
        return received


Connect = Callable[..., Client]


def connections_to(server: Server, stack: ExitStack) -> Connect:
    return lambda address=ALICE: stack.enter_context(Client(server, address))


@pytest.fixture
def connect_behind_nginx(server_behind_nginx: Server) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield connections_to(server_behind_nginx, stack)


def ask(connect: Connect) -> None:
    client = connect()
    client.send(QUESTION)
    assert client.answers().startswith(b"HTTP/1.1 401 ")


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
def test_slow_clients_keep_nobody_waiting(connect_behind_nginx: Connect, first: bytes, then: bytes) -> None:
    """They are many more than the threads of the service, and occupy nginx only, for longer than the others ask."""
    clients = [connect_behind_nginx(MALLORY) for _ in range(MANY)]
    for client in clients:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.send(first)
    for _ in range(3):
        for client in clients:
            with suppress(ConnectionError):  # a busy machine took so long that nginx gave it up
                client.send(then)
        ask(connect_behind_nginx)


def test_more_connections_than_descriptors_end_no_worker(launch: Launch) -> None:
    server = launch(under=["prlimit", f"--nofile={DESCRIPTORS}"])
    before = server.workers()
    with ExitStack() as stack:
        connect = connections_to(server, stack)
        for _ in range(2 * DESCRIPTORS):
            connect().send(QUESTION)
    wait_until(lambda: is_answered(server))
    assert server.workers() == before


def is_answered(server: Server) -> bool:
    with suppress(OSError, AssertionError), ExitStack() as stack:
        ask(connections_to(server, stack))
        return True
    return False


def test_a_connection_serves_requests_in_pieces_together_and_one_after_another_until_it_is_ended(
    provider: Server,
) -> None:
    with Client(provider, ALICE) as client:
        for piece in (FORM[:20], FORM[20:], b"Content-Length: 10\r\n\r\n", b"grant", b"_type"):
            client.send(piece)
            time.sleep(0.05)
        assert client.answers().startswith(b"HTTP/1.1 400 ")
        client.send(QUESTION * 3)
        assert client.answers(3).count(b"HTTP/1.1 401 ") == 3
        for _ in range(3):
            client.send(QUESTION)
            assert client.answers().startswith(b"HTTP/1.1 401 ")
            client.send(FORM + b"Content-Length: 10\r\n\r\ngrant_type")
            assert client.answers().startswith(b"HTTP/1.1 400 ")
        client.send(QUESTION.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert client.answers().startswith(b"HTTP/1.1 401 ")
        assert client.socket.recv(1) == b""
