"""An SMTP server that takes e-mails, late or at once, refuses them, hangs, drips, breaks off, or is away."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from typing import Any, cast

from tests.server import free_port

TAKES, BUSY, REFUSES, HANGS, DRIPS, BREAKS = "takes", "busy", "refuses", "hangs", "drips", "breaks"


class MailServer:
    """Listens from `open` to `close`, on the same port each time. `mode` may change at any time."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mode = TAKES
        self.data_seconds = self.quit_seconds = self.step_seconds = 0.0  # until DATA, QUIT, any command is answered
        self.connections = 0
        self.mails: list[EmailMessage] = []
        self._released = threading.Event()
        self._server: socketserver.ThreadingTCPServer | None = None

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def open(self) -> None:
        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            block_on_close = False
            request_queue_size = 100

        self._released.clear()
        self._server = Server(("127.0.0.1", self.port), lambda *given: _Session(self, *given))
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        """Go away: a connection is refused from now on, and one that hangs ends."""
        self._released.set()
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wait(self, seconds: float) -> bool:
        """False once the server has gone away."""
        return not self._released.wait(seconds)


class _Session(socketserver.StreamRequestHandler):
    def __init__(self, server: MailServer, *given: Any) -> None:
        self.mail_server = server
        super().__init__(*given)

    def handle(self) -> None:
        server = self.mail_server
        server.connections += 1
        if server.mode == HANGS:
            server.wait(60)
            return
        with suppress(ConnectionError):
            while server.mode == DRIPS and server.wait(0.05):
                self._say("220-not yet")
        self._say("220 ready")
        while line := self.rfile.readline():
            command = line[:4].upper()
            server.wait(server.quit_seconds if command == b"QUIT" else server.step_seconds)
            if command == b"RCPT" and server.mode in (BUSY, REFUSES):
                self._say("451 try later" if server.mode == BUSY else "550 nobody here")
            elif command == b"DATA":
                self._say("354 go on")
                data = b"".join(iter(self.rfile.readline, b".\r\n"))
                if server.mode == BREAKS:
                    return
                message = email.message_from_bytes(data, policy=email.policy.default)
                server.mails.append(cast(EmailMessage, message))
                server.wait(server.data_seconds)
                self._say("250 taken")
            else:
                self._say("221 bye" if command == b"QUIT" else "250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
