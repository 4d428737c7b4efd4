"""The thread pools of a worker.

Pages that wait for a password hash or for the database occupy no thread of the token operation or user info.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from config.infrastructure import paths
from config.infrastructure.request_classes import PROBE, STRANGER, Pool, RequestClass, must_refuse

# Before a request gets a thread, `class_of` reads LINE_LENGTH bytes to find the class of the request. For a probe, it
# reads HEAD_LENGTH bytes to find the end of the headers.
LINE_LENGTH = 256
HEAD_LENGTH = 8192


def sizes(web_threads: int) -> dict[Pool, int]:
    """Return the number of threads of each pool."""
    return {pool: web_threads if pool in (Pool.PAGES, Pool.OPERATIONS) else 1 for pool in Pool}


def threads_of(web_threads: int) -> int:
    """Return the number of threads with which a worker answers requests."""
    return sum(sizes(web_threads).values())


class ThreadPools:
    """Replaces the single pool of gunicorn's worker.

    If too many requests wait for a pool, a separate thread refuses further requests.

    The worker's main thread calls `submit` for each connection that has bytes to read.
    """

    def __init__(self, threads: int) -> None:
        self._executors = {pool: ThreadPoolExecutor(size, pool.name.lower()) for pool, size in sizes(threads).items()}
        self._waiting: Counter[Pool] = Counter()
        self._lock = threading.Lock()

    def submit(self, handle: Callable[[Any], Any], connection: Any) -> Future[Any]:
        request_class = class_of(connection.sock)
        pool = request_class.pool
        with self._lock:
            if self._waiting[pool] >= request_class.places:
                pool = Pool.REFUSALS
            self._waiting[pool] += 1
        return self._executors[pool].submit(self._run, pool, request_class, time.monotonic(), handle, connection)

    def _run(
        self, pool: Pool, request_class: RequestClass, since: float, handle: Callable[[Any], Any], connection: Any
    ) -> Any:
        with self._lock:
            self._waiting[pool] -= 1
        must_refuse.set(pool is Pool.REFUSALS or time.monotonic() - since > request_class.seconds)
        return handle(connection)

    def shutdown(self, wait: bool = True) -> None:
        for executor in self._executors.values():
            executor.shutdown(wait=wait)


def class_of(connection: socket.socket) -> RequestClass:
    """Return the class of the received request without consuming it. An incomplete request line has the class STRANGER.

    Only a request that has arrived completely has the class PROBE, so a slow sender cannot occupy the thread of probes.
    """
    method, _, rest = _peek(connection, LINE_LENGTH).partition(b" ")
    target = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    kind = paths.kind_of(target)
    found = (kind.request_class_of_post if method == b"POST" else None) or kind.request_class
    if found is PROBE and b"\r\n\r\n" not in _peek(connection, HEAD_LENGTH):
        return STRANGER
    return found


def _peek(connection: socket.socket, length: int) -> bytes:
    try:
        return connection.recv(length, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:  # nothing has arrived, or the client has disconnected
        return b""
