"""Calls in other threads, each with a database connection of its own that it closes at the end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import connection

from tests.server import PATIENCE_SECONDS, wait_until

_threads = ThreadPoolExecutor(40)


def begin(call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    return _threads.submit(_close_after, partial(call, *arguments))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    return [future.result(timeout=PATIENCE_SECONDS) for future in [begin(call) for call in calls]]


def _close_after(call: Callable[[], Any]) -> Any:
    try:
        return call()
    finally:
        connection.close()


def wait_until_it_waits(future: Future[Any]) -> None:
    """Until a statement waits for a row that this connection holds, or the call has ended."""
    wait_until(lambda: future.done() or waiting("pg_backend_pid() = ANY (pg_blocking_pids(pid))"))


def waiting(condition: str) -> set[int]:
    """The process ids of the connections to this database that wait for a lock which meets the condition in SQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
            f" WHERE NOT granted AND datname = current_database() AND {condition}"
        )
        return {pid for (pid,) in cursor.fetchall()}
