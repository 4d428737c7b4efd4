"""Clients that send little, late or in pieces keep nobody else waiting (config.worker)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from config.worker import PEEKED_BYTES, is_quick
from tests.server import Server
from tests.waiting_wsgi import WAIT_SECONDS

SOON_SECONDS = 2
MORE_THAN_THREADS = 12
QUESTION = b"GET /oauth/userinfo HTTP/1.1\r\nHost: HOST\r\n\r\n"
FORM = b"POST /oauth/token HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-www-form-urlencoded\r\n"


class Client:
    """A connection that sends exactly what it is told."""

    def __init__(self, server: Server) -> None:
        self.host = urlsplit(server.base_url).netloc.encode()
        self.socket = socket.create_connection(("127.0.0.1", int(self.host.rpartition(b":")[2])), timeout=15)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, text: bytes) -> None:
        self.socket.sendall(text.replace(b"HOST", self.host))

    def answers(self, count: int = 1) -> bytes:
        """What comes back until `count` answers have come whole: all end with a JSON object."""
        received = b""
        while received.count(b"HTTP/1.1 ") < count or not received.endswith(b"}"):
            part = self.socket.recv(65536)
            assert part, received
            received += part
        return received


Connect = Callable[[], Client]


@pytest.fixture
def connect(launch) -> Iterator[Connect]:
    server = launch()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Client(server))


def seconds_of_an_answer(connect: Connect) -> float:
    client, started = connect(), time.monotonic()
    client.send(QUESTION)
    assert client.answers().startswith(b"HTTP/1.1 401 ")
    return time.monotonic() - started


@pytest.mark.parametrize(
    "piece",
    [b"", b"GET /oau", QUESTION[:-2], b"POST /oauth/token HTTP/1.1\r\nContent-Length: 30\r\n\r\ngrant_type"],
    ids=["silent", "half a line", "half a head", "half a body"],
)
def test_requests_that_never_arrive_whole_keep_nobody_waiting(connect: Connect, piece: bytes) -> None:
    for client in [connect() for _ in range(MORE_THAN_THREADS)]:
        client.send(piece)
    time.sleep(0.2)
    assert seconds_of_an_answer(connect) < SOON_SECONDS


def test_connections_that_the_client_does_not_close_keep_nobody_waiting(connect: Connect) -> None:
    page = b"GET /health/live HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
    for client in [connect() for _ in range(MORE_THAN_THREADS)]:
        client.send(page)
    assert seconds_of_an_answer(connect) < SOON_SECONDS


def test_requests_that_wait_for_the_database_wait_side_by_side(launch) -> None:
    server = launch(wsgi="tests.waiting_wsgi")
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(6)]
        for client in clients:  # one is slow, and from then on the threads are asked
            client.send(QUESTION)
            client.answers()
        began = time.monotonic()
        for client in clients:
            client.send(QUESTION)
        for client in clients:
            client.answers()
    assert time.monotonic() - began < len(clients) * WAIT_SECONDS / 2


def test_a_request_in_pieces_is_answered(connect: Connect) -> None:
    client = connect()
    for piece in (FORM[:20], FORM[20:], b"Content-Length: 10\r\n\r\n", b"grant", b"_type"):
        client.send(piece)
        time.sleep(0.05)
    assert client.answers().startswith(b"HTTP/1.1 400 ")


def test_requests_that_arrive_together_are_all_answered(connect: Connect) -> None:
    client = connect()
    client.send(QUESTION * 3)
    assert client.answers(3).count(b"HTTP/1.1 401 ") == 3


def test_a_connection_serves_one_request_after_another(connect: Connect) -> None:
    client = connect()
    for _ in range(3):
        client.send(QUESTION)
        assert client.answers().startswith(b"HTTP/1.1 401 ")
        client.send(FORM + b"Content-Length: 10\r\n\r\ngrant_type")
        assert client.answers().startswith(b"HTTP/1.1 400 ")


def test_a_connection_is_closed_when_the_client_asks_for_it(connect: Connect) -> None:
    client = connect()
    client.send(QUESTION.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert client.answers().startswith(b"HTTP/1.1 401 ")
    assert client.socket.recv(1) == b""


@pytest.mark.parametrize(
    ("arrived", "quick"),
    [
        (QUESTION, True),
        (b"GET /oauth/authorize?client_id=x HTTP/1.1\r\n\r\n", True),
        (FORM + b"content-length: 3\r\n\r\na=b", True),
        (FORM + b"content-length: 3\r\n\r\na=", False),
        (FORM + b"Transfer-Encoding: chunked\r\n\r\n5\r\n", False),
        (FORM + b"content-length: 9999999\r\n\r\na=b", False),
        (FORM + b"content-length: 99999999999999999999\r\n\r\na=b", False),
        (FORM + b"content-length: 3\r\ncontent-length: 4\r\n\r\na=b", False),
        (FORM + b"content-length : 3\r\n\r\na=b", False),
        (FORM + b"content-length: 3, 3\r\n\r\na=b", False),
        (FORM + b"content-length: +3\r\n\r\na=b", False),
        (QUESTION[:-1], False),
        (b"", False),
        (b"POST /accounts/sign-in HTTP/1.1\r\ncontent-length: 0\r\n\r\n", False),
        (b"POST /oauth/authorize HTTP/1.1\r\ncontent-length: 0\r\n\r\n", False),
        (b"GET /oauth/userinfo/ HTTP/1.1\r\n\r\n", False),
    ],
)
def test_only_whole_requests_to_the_three_operations_are_quick(arrived: bytes, quick: bool) -> None:
    assert is_quick(arrived) is quick


def test_a_long_request_is_read_by_a_thread(connect: Connect) -> None:
    client = connect()
    client.send(b"GET /oauth/authorize?state=" + b"x" * PEEKED_BYTES + b" HTTP/1.1\r\nHost: HOST\r\n\r\n")
    assert client.answers().startswith(b"HTTP/1.1 400 ")
