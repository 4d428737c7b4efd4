"""What one request costs a server in CPU time, from /proc."""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.server import Server


@dataclass(frozen=True)
class Request:
    """A method and target, header lines as raw bytes, and a body. What else HTTP asks for is added."""

    label: str
    line: bytes
    headers: list[bytes] = field(default_factory=list)
    body: bytes = b""

    def render(self, host: bytes) -> bytes:
        named = {header.partition(b":")[0].lower() for header in self.headers}
        lines = [self.line + b" HTTP/1.1", *self.headers, b"Connection: close"]
        if b"host" not in named:
            lines.append(b"Host: " + host)
        if self.body and not named & {b"content-length", b"transfer-encoding"}:
            lines.append(b"Content-Length: %d" % len(self.body))
        if self.body and b"content-type" not in named:
            lines.append(b"Content-Type: application/x-www-form-urlencoded")
        return b"\r\n".join([*lines, b"", self.body])


class Meter:
    """Sends requests and tells what each cost the only worker of the server, in nanoseconds of CPU time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.host = urlsplit(server.base_url).netloc.encode()
        [self.worker] = server.workers()
        self._before = self._used()

    def cost(self, request: Request) -> int:
        self._send(request.render(self.host))
        used = self._used()
        spent, self._before = used - self._before, used
        return spent

    def _send(self, data: bytes) -> None:
        port = int(self.host.rpartition(b":")[2])
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        with closing(connection), suppress(ConnectionError):  # an answer may come before all was sent
            connection.sendall(data)
            with suppress(OSError):  # the connection has ended already
                connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    def _used(self) -> int:
        """proc(5): the first field of `schedstat`, of every thread."""
        assert self.server.workers() == {self.worker}, "the worker has ended"
        threads = Path(f"/proc/{self.worker}/task").glob("*/schedstat")
        return sum(int(path.read_text(encoding="ascii").split()[0]) for path in threads)
