"""An HTTP server of a test, which the service calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, *given: Any) -> None:
        """Say nothing of a service that went away: it does so after its time."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], port: int, released: threading.Event, host: str) -> Iterator[None]:
    """Serve until the block ends, which sets `released`."""
    server = _Server((host, port), handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    try:
        yield
    finally:
        released.set()
        server.shutdown()
        server.server_close()
