"""HTTP/1.1 over one kept connection, with as little work of the client's as will do: it shares the machine."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

TIMEOUT_SECONDS = 60
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
LOCATION = re.compile(rb"\r\nlocation: *([^\r]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    status: int
    head: bytes
    body: bytes

    @property
    def location(self) -> str:
        found = LOCATION.search(self.head)
        return found[1].decode("latin-1") if found else ""


class Line:
    """A connection to a loopback port, opened when it is needed and again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket: socket.socket | None = None

    def ask(self, message: bytes) -> Answer:
        self.send(message)
        return self.receive()

    def send(self, message: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(message)

    def receive(self) -> Answer:
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        if CHUNKED.search(head):
            body = self._joined(body)
        else:
            length = LENGTH.search(head)
            while len(body) < (int(length[1]) if length else 0):
                body += self._more()
        if CLOSE.search(head):
            self.close()
        return Answer(int(head[9:12]), head, body)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _joined(self, chunks: bytes) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in chunks:
                chunks += self._more()
            size, _, chunks = chunks.partition(b"\r\n")
            length = int(size, 16)
            while len(chunks) < length + 2:
                chunks += self._more()
            if not length:
                return body
            body, chunks = body + chunks[:length], chunks[length + 2 :]

    def _more(self) -> bytes:
        assert self._socket is not None
        more = self._socket.recv(65536)
        if not more:
            raise ConnectionError("closed in the middle")
        return more
