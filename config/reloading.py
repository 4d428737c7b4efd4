"""Wait for a new worker's first answer before a reload ends an old worker and before systemd is notified."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from wsgiref.util import setup_testing_defaults

from gunicorn.workers.gthread import ThreadWorker

# All processes of the server share the number of reloads (modulo 256) and a pipe. The pipe contains one byte for each
# ready worker that has not yet replaced an old worker.
_reloads = mmap.mmap(-1, 1)
_ready, _tell_ready = os.pipe()
os.set_blocking(_ready, False)
os.set_blocking(_tell_ready, False)

# These requests import most of the service and load a page's templates and styles. They do not use the database.
WARM_UP = ("/health/live", "/accounts/sign-in")

NOTIFICATION_SECONDS = 1.0
_notify_socket = ""


class Worker(ThreadWorker):
    """gunicorn's worker, which continues after the SIGTERM of a reload until a new worker is ready.

    gunicorn sends the signal right after it has started the new workers, seconds before they can answer. The worker
    ends after `graceful_timeout` at the latest, or at a second signal, which gunicorn sends when the server stops.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generation = _reloads[0]
        self.waits_until: float | None = None
        self.notifies_at = 0.0

    def get_thread_pool(self) -> Any:
        from config.http.thread_pools import (
            ThreadPools,
        )  # imported in the worker, because a reload does not renew the server's imports

        return ThreadPools(self.cfg.threads)

    def handle_exit(self, sig: int, frame: object) -> None:
        if self.is_newest() or self.waits_until:
            super().handle_exit(sig, frame)
        else:
            self.waits_until = time.monotonic() + self.cfg.graceful_timeout

    def notify(self) -> None:
        """Tell gunicorn once a second that this worker runs, and end if a new worker is ready.

        The main loop calls this method at least once a second, and three times for each request. gunicorn would set the
        time of a file at each call, although its `timeout` is 30 seconds.
        """
        now = time.monotonic()
        if now >= self.notifies_at:
            super().notify()
            self.notifies_at = now + NOTIFICATION_SECONDS
        if self.alive and self.waits_until and (_take_place() or now > self.waits_until):
            super().handle_exit(signal.SIGTERM, None)

    def is_newest(self) -> bool:
        return self.generation == _reloads[0]


def _take_place() -> bool:
    """Return whether a ready worker can replace this worker. If so, remove the byte of the ready worker."""
    with suppress(BlockingIOError):
        return bool(os.read(_ready, 1))
    return False


def begin_reload() -> None:
    """Make present workers continue after their next SIGTERM. The server calls this before it starts new workers."""
    with suppress(BlockingIOError):
        while os.read(_ready, 4096):
            pass
    _reloads[0] = (_reloads[0] + 1) % 256


def be_ready(worker: Worker) -> None:
    """Call `warm_up`, tell an old worker to end, and notify systemd. Raises RuntimeError: `warm_up` has failed.

    The garbage collection ignores everything that exists at the end of `warm_up`. Otherwise a full collection would
    examine the modules of the whole service, and all requests of the worker would wait for 50 to 80 ms of CPU time.
    """
    warm_up(worker.wsgi)
    gc.collect()
    gc.freeze()
    if worker.is_newest():
        with suppress(BlockingIOError):  # the pipe is full after 65,536 starts without a reload
            os.write(_tell_ready, b".")
    if _notify_socket:
        os.kill(worker.ppid, signal.SIGURG)


def warm_up(application: Any) -> None:
    """Answer the WARM_UP requests. Raises RuntimeError: an answer has a status of 500 or above."""
    from django.conf import settings

    for path in WARM_UP:
        environ = {"PATH_INFO": path, "HTTP_HOST": urlsplit(settings.AUTH_URL).netloc, "REMOTE_ADDR": "127.0.0.1"}
        setup_testing_defaults(environ)
        found: list[str] = []
        body = application(environ, lambda status, headers, found=found: found.append(status))
        b"".join(body)
        body.close()
        if int(found[0].split()[0]) >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise RuntimeError(f"{path} answers {found[0]}.")


def hold_back_notification() -> None:
    """Hide systemd's notification address from gunicorn, which would send `READY=1` before a worker has started."""
    global _notify_socket
    _notify_socket = os.environ.pop("NOTIFY_SOCKET", "")


def notify_once_ready() -> None:
    """Notify systemd when the first worker is ready.

    A ready worker sends SIGURG to the server, which then notifies systemd: systemd accepts only messages of the main
    process. Processes ignore SIGURG by default.
    """
    if _notify_socket:
        signal.signal(signal.SIGURG, _notify)


def _notify(_signal: int, _frame: object) -> None:
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    address = "\0" + _notify_socket[1:] if _notify_socket.startswith("@") else _notify_socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto(b"READY=1", address)
