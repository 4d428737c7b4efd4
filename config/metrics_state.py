"""Read the metrics that describe the database, in a thread of each worker."""

from __future__ import annotations

import platform
from datetime import datetime
from threading import Timer

from django.conf import settings
from django.db import Error
from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone

from accounts.models import OutgoingMail
from config.infrastructure import metrics
from config.infrastructure.events import Event
from config.infrastructure.work_queue import Worker
from oauth_bridge.models import PurgeRun, SigningKey

PAUSE_SECONDS = 10.0
# If the statements take longer, the database counts as unavailable.
WAIT_SECONDS = 2.0
MOST_ROWS = 10_000  # rows of a queue above this number are not counted


def start() -> None:
    """Set the metrics that stay the same, and start the thread."""
    metrics.THREADS.set(settings.WEB_THREADS)
    metrics.BUILD_INFO.labels(settings.VERSION, platform.python_version()).set(1)
    for event in Event:  # Prometheus's `rate` includes the first event only if the count was 0 before
        metrics.EVENTS.labels(event.name.lower())
    Worker("metrics", read, PAUSE_SECONDS).start()


def read() -> bool:
    """Set the metrics of the database, and return False. Raises Error: the database does not answer."""
    limit = Timer(WAIT_SECONDS, metrics.DATABASE_UP.set, [0])
    limit.start()
    try:
        _read_queue("mails", OutgoingMail.objects.exclude(sealed=b""))
        if finished_at := PurgeRun.objects.aggregate(at=Max("finished_at"))["at"]:
            metrics.PURGE_AGE.set(_age(finished_at))
        keys = SigningKey.objects.filter(revoked_at=None).order_by().values_list("algorithm")
        for algorithm, made_at in keys.annotate(at=Max("made_at")):
            metrics.SIGNING_KEY_AGE.labels(algorithm).set(_age(made_at))
    except Error:
        metrics.DATABASE_UP.set(0)
        raise
    finally:
        limit.cancel()
    metrics.DATABASE_UP.set(1)
    return False


def _read_queue(name: str, rows: QuerySet[OutgoingMail]) -> None:
    """Read a queue of `config.infrastructure.work_queue`."""
    retried = Count("pk", filter=Q(attempts__gt=0))
    found = rows.order_by()[:MOST_ROWS].aggregate(waiting=Count("pk"), retried=retried, due_at=Min("due_at"))
    metrics.QUEUE_WAITING.labels(name).set(found["waiting"])
    metrics.QUEUE_RETRIED.labels(name).set(found["retried"])
    metrics.QUEUE_OVERDUE.labels(name).set(max(_age(found["due_at"]), 0) if found["due_at"] else 0)


def _age(at: datetime) -> float:
    """Return the seconds since `at`."""
    return (timezone.now() - at).total_seconds()
