"""The gunicorn worker: its main loop answers what is quick, its threads whatever may take time.

A request to one of the three operations that has arrived whole is answered by the loop that noticed it. Handing it to a
thread costs a quarter more: two wake-ups, and threads that wait for each other between any two lines of Python. Slow
clients, uploads, passwords and pages go to the threads, so none of them holds up anybody else.
"""

from __future__ import annotations

import re
import select
import socket
import time
from concurrent.futures import Future
from typing import Any

from gunicorn import glogging
from gunicorn.util import close_graceful
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker

# What a thread would have to wait for is not peeked at: at most this much is looked through.
PEEKED_BYTES = 8192
QUICK = re.compile(rb"(?:GET /oauth/userinfo|GET /oauth/authorize\?\S*|POST /oauth/token) HTTP/1\.1\r\n", re.ASCII)
BODY = re.compile(rb"\r\n(?:content-length|transfer-encoding)([^\r]*)", re.IGNORECASE)
LENGTH = re.compile(rb":[ \t]*(\d+)[ \t]*", re.ASCII)

# When the database or Redis is slow, requests wait side by side in the threads instead of one behind the other: after
# one that took so long, for so many times as long as it took.
SLOW_SECONDS = 0.1
THREADS_FOR_TIMES = 10
# A connection on which nothing has come is not kept as long as one that has been of use.
NEWCOMER_SECONDS = 10.0
# For what a client is still sending when it has its answer: a connection closed under it loses the answer.
LINGER_SECONDS = 0.3
# A port that somebody else holds too, systemd or another master, is never without newcomers.
TAKING_IN_SECONDS = 0.5


class Logger(glogging.Logger):
    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """Nothing: the log has its line already. gunicorn would put one together even when it goes nowhere."""


class Worker(ThreadWorker):
    """`gthread` with the one difference above."""

    _threads_until = 0.0

    def enqueue_req(self, conn: TConn) -> None:
        """A connection was accepted, or there is something to read on it."""
        arrived = self._arrived(conn)
        if arrived is None and not conn.initialized and self.alive:
            self._finish(conn, _DEFER)  # the loop waits for its first bytes, no thread does
            conn.timeout = time.monotonic() + NEWCOMER_SECONDS
        elif arrived is None or not self.alive or not is_quick(arrived) or time.monotonic() < self._threads_until:
            super().enqueue_req(conn)
        else:
            self._answer(conn)

    def set_accept_enabled(self, enabled: bool) -> None:
        """A worker that stops takes in whoever has connected, and then lets go of the port.

        gunicorn's own keeps it open without accepting until it has ended, and whoever connects meanwhile is reset.
        """
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        for listener in self.sockets:
            waiting = select.poll()
            waiting.register(listener.fileno(), select.POLLIN)
            end = time.monotonic() + TAKING_IN_SECONDS
            while waiting.poll(0) and time.monotonic() < end:
                self.accept(listener)
            listener.close()

    def _answer(self, conn: TConn) -> None:
        started = time.monotonic()
        conn.data_ready = True
        if keep := self.handle(conn):
            self._finish(conn, keep)
        else:
            self.nr_conns -= 1
            conn.close()  # all that was sent has been read, so there is nothing to linger for
        ended = time.monotonic()
        if ended - started > SLOW_SECONDS:
            self._threads_until = ended + THREADS_FOR_TIMES * (ended - started)

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """What ends is closed by a thread, which waits a moment for the client to close too; the loop can't wait."""
        if self.alive and not fs.cancelled() and fs.exception() is None and not fs.result():
            self.nr_conns -= 1
            self.tpool.submit(close_graceful, conn.sock, LINGER_SECONDS)
        else:
            super().finish_request(conn, fs)

    def _arrived(self, conn: TConn) -> bytes | None:
        """What can be read without waiting, left where it is; None when that is nothing, or not for us to say."""
        if self.cfg.is_ssl or (conn.initialized and conn.parser.unreader.buf.getvalue()):
            return b""  # encrypted, or read along with the last request
        try:
            return bytes(conn.sock.recv(PEEKED_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _finish(self, conn: TConn, result: Any) -> None:
        finished: Future[Any] = Future()
        finished.set_result(result)
        self.finish_request(conn, finished)


def is_quick(arrived: bytes) -> bool:
    """Whether this is a whole request to one of the three operations: reading it can't make anybody wait."""
    head, end, body = arrived.partition(b"\r\n\r\n")
    if not end or not QUICK.match(arrived):
        return False
    # Anything but one plain Content-Length is for a thread to find out: it may wait for what never comes.
    lengths = [LENGTH.fullmatch(announced) for announced in BODY.findall(head)]
    return not lengths or (len(lengths) == 1 and lengths[0] is not None and len(body) >= int(lengths[0][1]))
