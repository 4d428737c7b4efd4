"""An application's address that is told of sign-outs: it takes them, refuses them, redirects, drips or hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests import http_peer
from tests.server import free_port

HANGS, DRIPS = -1, -2


class Receiver:
    """`answers` are the statuses of the next requests, or HANGS or DRIPS; then 200."""

    def __init__(self, *answers: int, location: str = "") -> None:
        self.port = free_port()
        self.answers = list(answers)
        self.location = location
        self.requests: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told?a=1"

    @property
    def tokens(self) -> list[str]:
        return [form["logout_token"][0] for _path, _headers, form in self.requests]

    @contextmanager
    def listening(self, host: str = "127.0.0.1") -> Iterator[Receiver]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.handle(self)

            do_GET = do_POST

            def log_message(self, *given: Any) -> None:
                pass

        with http_peer.listening(Handler, self.port, self.released, host):
            yield self

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
        self.requests.append((handler.path, dict(handler.headers), parse_qs(body)))
        status = self.answers.pop(0) if self.answers else 200
        if status == HANGS:
            self.released.wait(30)
        elif status == DRIPS:
            with suppress(OSError):
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                while not self.released.wait(0.05):
                    handler.wfile.write(b"x")
                    handler.wfile.flush()
        else:
            handler.send_response(status)
            if self.location:
                handler.send_header("Location", self.location)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
