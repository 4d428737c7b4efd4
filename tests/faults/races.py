"""Calls in other threads, each with a database connection of its own that it closes at the end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import connection

_threads = ThreadPoolExecutor(40)


def begin(call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    return _threads.submit(_close_after, partial(call, *arguments))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return, or the exception of one of them."""
    return [future.result(timeout=60) for future in [begin(call) for call in calls]]


def _close_after(call: Callable[[], Any]) -> Any:
    try:
        return call()
    finally:
        connection.close()


def wait_until_it_waits(future: Future[Any]) -> None:
    """Until a statement waits for a row that this connection holds."""
    with connection.cursor() as cursor:
        while not future.done():
            cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))")
            if cursor.rowcount:
                return
