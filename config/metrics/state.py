"""The metrics that are read at a scrape: the state of the database, and the version.

At most every FRESH_SECONDS, one statement reads the database, on a connection that is closed afterwards. If the
statement takes longer than WAIT_SECONDS, the database counts as unavailable, and the answer contains only the other
metrics.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from django.conf import settings
from django.db import Error, connection
from django.utils import timezone
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from accounts.models import OutgoingMail
from config.infrastructure.sql import fetch_one
from oauth_bridge.key_models import SigningKey
from oauth_bridge.models import PurgeRun
from oauth_bridge.storage.signing_keys import ALGORITHMS

logger = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
WAIT_SECONDS = 2.0
MOST_ROWS = 10_000  # rows of a queue above this number are not counted
QUEUE = """(SELECT count(*) AS waiting, coalesce(sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), 0) AS retried,
    min(due_at) AS due_at FROM (SELECT attempts, due_at FROM {table} WHERE {condition} LIMIT {most}) AS part)"""
KEY = "(SELECT max(made_at) FROM {table} WHERE revoked_at IS NULL AND algorithm = '{algorithm}')"
STATEMENT = """SELECT mails.waiting, mails.retried, mails.due_at, logouts.waiting, logouts.retried, logouts.due_at,
    (SELECT max(finished_at) FROM {purges}),
    {keys}
    FROM {mails} AS mails, {logouts} AS logouts"""


class Queue(NamedTuple):
    """A queue of `config.infrastructure.work_queue`."""

    waiting: int
    retried: int  # waiting rows after a failed attempt
    overdue_seconds: float


class State(NamedTuple):
    """The queues, the age of the last purge and the ages of the signing keys, in seconds. Unknown ages are left out."""

    queues: dict[str, Queue]
    purge_age: dict[tuple[str, ...], float]
    key_ages: dict[tuple[str, ...], float]


def read() -> State:
    """Read the state of the database. Raises Error: the database does not answer."""
    mails, retried_mails, mail_due, *times = fetch_one(_statement(), nothing=b"")
    purge_age, *key_ages = (_age(each) for each in times)
    known = {(name,): age for name, age in zip(ALGORITHMS, key_ages, strict=True)}
    return State(
        {
            "mails": Queue(mails, retried_mails, max(_age(mail_due) or 0, 0)),
        },
        {} if purge_age is None else {(): purge_age},
        {labels: age for labels, age in known.items() if age is not None},
    )


def _statement() -> str:
    return STATEMENT.format(
        mails=QUEUE.format(table=OutgoingMail._meta.db_table, condition="sealed <> %(nothing)s", most=MOST_ROWS),
        purges=PurgeRun._meta.db_table,
        keys=", ".join(KEY.format(table=SigningKey._meta.db_table, algorithm=each) for each in ALGORITHMS),
    )


def _age(at: datetime | str | None) -> float | None:
    """Return the seconds since `at`, which SQLite returns as text without a time zone."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at).replace(tzinfo=UTC)
    return (timezone.now() - at).total_seconds() if at else None


class StateCollector:
    """A collector for prometheus_client. It reads in a separate thread, because a stopped database never answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began = -FRESH_SECONDS
        self._state: State | None = None
        self._is_failing = False

    def collect(self) -> Iterator[Metric]:
        versions = (settings.VERSION, platform.python_version())
        yield _gauge("build_info", "1. The labels are the versions.", {versions: 1}, "version", "python")
        state = self._present()
        yield _gauge("database_up", "1 while the database answers, else 0.", {(): state is not None})
        if state is None:
            return
        for member, text in (
            ("waiting", "Rows that wait."),
            ("retried", "Rows that wait after an attempt has failed."),
            ("overdue_seconds", "How long the oldest row that is due waits."),
        ):
            values: dict[tuple[str, ...], float] = {
                (name,): getattr(queue, member) for name, queue in state.queues.items()
            }
            yield _gauge(f"queue_{member}", text, values, "queue")
        yield _gauge("purge_age_seconds", "Time since the last complete purge.", state.purge_age)
        yield _gauge("signing_key_age_seconds", "Age of the newest key of ID tokens.", state.key_ages, "algorithm")

    def _present(self) -> State | None:
        with self._lock:
            is_old = time.monotonic() - self._began >= FRESH_SECONDS
            if is_old and not (self._thread and self._thread.is_alive()):
                self._began, self._state = time.monotonic(), None
                self._thread = threading.Thread(target=self._read, name="metrics-state", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread:
            thread.join(WAIT_SECONDS)
        return self._state

    def _read(self) -> None:
        try:
            self._state = read()
            self._is_failing = False
        except Error as error:
            if not self._is_failing:
                logger.warning("metrics lack the database", extra={"error": type(error).__name__})
            self._is_failing = True
        finally:
            connection.close()


def _gauge(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"delegated_{name}", text, labels=labels)
    for shown, value in values.items():
        family.add_metric(shown, value)
    return family
