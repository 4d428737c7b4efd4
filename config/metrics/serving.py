"""Serve `/metrics` in a thread of one worker. When this worker ends, another worker takes over.

The workers inherit the listening socket. So connections are not refused; they wait until another worker takes over.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

from config.metrics import slots
from config.metrics.state import StateCollector

logger = logging.getLogger(__name__)

PATH = "/metrics"
NOT_FOUND = f"There is nothing at this path. The metrics are at {PATH}.\n"
MOST_CONNECTIONS = 8
CONNECTION_SECONDS = 10.0
# Requests get the same answer until it is this old.
FRESH_SECONDS = 1.0
STOP_SECONDS = 2.0


class Page:
    """The text of `/metrics`, which one thread at a time makes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._text, self._made_at = b"", -FRESH_SECONDS
        self._registry = CollectorRegistry()
        MultiProcessCollector(self._registry, str(folder))  # type: ignore[no-untyped-call]
        self._registry.register(StateCollector())

    def text(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._made_at >= FRESH_SECONDS:
                slots.forget_ended(self._folder)
                self._text, self._made_at = generate_latest(self._registry), time.monotonic()
            return self._text


class Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds between two reads
    error_message_format, error_content_type = "%(explain)s\n", "text/plain"
    server: Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, NOT_FOUND.encode(), "text/plain")
            return
        try:
            text = self.server.text()
        except Exception:
            logger.exception("the metrics can't be read")
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"The metrics can't be read. See the log.\n", "text/plain")
        else:
            self._answer(HTTPStatus.OK, text, CONTENT_TYPE_PLAIN_0_0_4)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "metrics"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape every few seconds would fill the log."""


class Server(ThreadingHTTPServer):
    """Serves at most MOST_CONNECTIONS connections at once, each for at most CONNECTION_SECONDS."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, text: Callable[[], bytes]) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.text = text
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        limit = threading.Timer(CONNECTION_SECONDS, self.shutdown_request, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error, because the client has disconnected or was too slow."""


_server: Server | None = None
_stopping = threading.Event()


def start(listener: socket.socket, folder: Path) -> None:
    """Start a thread that serves as soon as no other worker serves. Return at once."""
    threading.Thread(target=_serve_in_turn, args=(listener, folder), name="metrics", daemon=True).start()


def stop() -> None:
    """Stop accepting connections, so that another worker can serve."""
    _stopping.set()
    if _server:
        _server.shutdown()


def _serve_in_turn(listener: socket.socket, folder: Path) -> None:
    global _server
    with (folder / "turn").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # when this worker ends, another worker gets the lock
        if not _stopping.is_set():
            _server = Server(listener, Page(folder).text)
            _server.serve_forever()
