"""Send requests as bytes on a socket, so that no HTTP library corrects them, and parse the responses."""

from __future__ import annotations

import io
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse

from requests.structures import CaseInsensitiveDict

TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CaseInsensitiveDict[str]
    body: bytes


class Silence(Exception):
    """The server closed the connection, or sent something other than HTTP."""


class Wire:
    """One client, with a persistent connection and others for one request each."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._kept: socket.socket | None = None

    def ask(self, request: bytes, *, head: bool = False, pieces: int = 1) -> Answer:
        """The response to a well-framed request, on the persistent connection.

        Raises Silence: there was no response, or more than one.
        """
        connection, self._kept = self._kept, None
        if connection and select.select([connection], [], [], 0)[0]:  # the server closed it while it was idle
            connection.close()
            connection = None
        connection = connection or self._connect()
        try:
            _send(connection, request, pieces)
            stream = _Stream(socket.SocketIO(connection, "r"))
            answer = _read(stream, head=head)
            connection.setblocking(False)
            rest = stream.peek(1)
            connection.settimeout(TIMEOUT_SECONDS)
        except OSError as error:
            connection.close()
            raise Silence(type(error).__name__) from None
        if rest:
            raise Silence("more than one answer")
        if answer.headers.get("Connection", "").lower() == "close":
            connection.close()
        else:
            self._kept = connection
        return answer

    def ask_alone(self, request: bytes, *, head: bool = False, pieces: int = 1) -> list[Answer]:
        """The responses on a new connection, read until it ends; empty when the server sent none."""
        with self._connect() as connection:
            _send_all(connection, request, pieces)
            return list(_all_of(_received(connection), head=head))

    def ask_twice(self, request: bytes, *, head: bool = False) -> list[Answer]:
        """The responses to the same request on two connections at the same time."""
        with self._connect() as one, self._connect() as other:
            _send_all(one, request)
            _send_all(other, request)
            return [answer for each in (one, other) for answer in _all_of(_received(each), head=head)]

    def close(self) -> None:
        if self._kept:
            self._kept.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _send_all(connection: socket.socket, request: bytes, pieces: int = 1) -> None:
    with suppress(OSError):
        _send(connection, request, pieces)
        connection.shutdown(socket.SHUT_WR)


def _received(connection: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            received += part
    return received


def _send(connection: socket.socket, request: bytes, pieces: int) -> None:
    size = max(1, -(-len(request) // pieces))
    for start in range(0, len(request), size):
        connection.sendall(request[start : start + size])


class _Stream(io.BufferedReader):
    """What was received, of which one response after the other is read: none of them closes it."""

    def makefile(self, _mode: str) -> _Stream:
        return self

    def close(self) -> None:
        pass


def _all_of(received: bytes, *, head: bool) -> Iterator[Answer]:
    stream = _Stream(io.BytesIO(received))
    while stream.peek(1):
        yield _read(stream, head=head)
        if head:  # the bytes after such a response can't be distinguished from a body
            return


def _read(stream: _Stream, *, head: bool) -> Answer:
    """The next response that is not informational. Raises Silence: it ended incomplete, or it is not HTTP."""
    try:
        answer = HTTPResponse(stream, method="HEAD" if head else "GET")  # type: ignore[arg-type]
        answer.begin()
        return Answer(answer.status, CaseInsensitiveDict(answer.getheaders()), answer.read())
    except (HTTPException, ValueError) as error:
        raise Silence(type(error).__name__) from None
