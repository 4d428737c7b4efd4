"""Send requests as bytes on a socket, so that no HTTP library corrects them, and parse the responses."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

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
            answer, rest = _read(connection, head=head)
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


def _all_of(received: bytes, *, head: bool) -> Iterator[Answer]:
    while received:
        answer, received = _parse(received, head=head, is_over=True)
        yield answer
        if head:  # the bytes after such a response can't be distinguished from a body
            return


def _read(connection: socket.socket, *, head: bool) -> tuple[Answer, bytes]:
    received = b""
    while True:
        try:
            return _parse(received, head=head, is_over=False)
        except EOFError:
            part = connection.recv(65536)
            if not part:
                return _parse(received, head=head, is_over=True)
            received += part


def _parse(received: bytes, *, head: bool, is_over: bool) -> tuple[Answer, bytes]:
    """The first response that is not informational, and the bytes after it.

    Raises EOFError: the response is incomplete so far. Raises Silence: it ended incomplete.
    """
    try:
        top, rest = _cut(received, b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        version, _, after = lines[0].partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not after[:3].isdecimal():
            raise Silence("not HTTP")
        status = int(after[:3])
        if status < 200:
            return _parse(rest, head=head, is_over=is_over)
        pairs = [line.partition(":") for line in lines[1:]]
        headers = CaseInsensitiveDict({name: value.strip() for name, _, value in pairs})
        if head or status in (204, 304):
            body = b""
        elif headers.get("Transfer-Encoding") == "chunked":
            body, rest = _dechunked(rest)
        elif "Content-Length" in headers:
            body, rest = _taken(rest, int(headers["Content-Length"]))
        elif is_over:
            body, rest = rest, b""
        else:
            raise EOFError
    except EOFError:
        if is_over:
            raise Silence("half an answer" if received else "hung up") from None
        raise
    return Answer(status, headers, body), rest


def _dechunked(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        size, rest = _cut(rest, b"\r\n")
        chunk, rest = _taken(rest, int(size, 16))
        _, rest = _cut(rest, b"\r\n")
        body += chunk
        if not chunk:
            return body, rest


def _cut(received: bytes, at: bytes) -> tuple[bytes, bytes]:
    before, found, after = received.partition(at)
    if not found:
        raise EOFError
    return before, after


def _taken(received: bytes, length: int) -> tuple[bytes, bytes]:
    if len(received) < length:
        raise EOFError
    return received[:length], received[length:]
