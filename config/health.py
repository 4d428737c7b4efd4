"""The state of the service, for load balancers and Prometheus."""

from __future__ import annotations

import functools
import platform
from datetime import datetime
from threading import Timer

from django.conf import settings
from django.db import DatabaseError, Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, Max, Min, Q
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from accounts.models import OutgoingMail
from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.rate_limits import is_redis_answering
from config.infrastructure.worker import Worker
from oauth_bridge.activity import counts
from oauth_bridge.management import purging
from oauth_bridge.models import SigningKey

PAUSE_SECONDS = 10.0
# If the statements take longer, the database counts as unavailable.
WAIT_SECONDS = 2.0
MOST_ROWS = 10_000  # rows of a queue above this number are not counted


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Return 200 if the database is migrated and writable, otherwise 503. Also report on Redis and the last purge."""
    database = _database()
    is_ready = database == "ok"
    status = "ok" if is_ready else "unavailable"
    redis = "not used" if not settings.REDIS_URL else "ok" if is_redis_answering() else "unavailable"
    finished = purging.last_finished() if is_ready else None
    purge = {
        "last_finished": finished and finished.isoformat(timespec="seconds"),
        "age_seconds": finished and max(int(_age(finished)), 0),
    }
    parts = {"version": settings.VERSION, "database": database, "redis": redis, "purge": purge}
    return JsonResponse({"status": status, **parts}, status=200 if is_ready else 503)


def _database() -> str:
    try:
        if missing_migrations():
            return "migrations pending"
        return "ok" if counts.is_writable() else "read-only"
    except DatabaseError:
        return "unavailable"


def missing_migrations() -> list[str]:
    """Return the migrations that are not applied, such as `oauth_bridge.0001_initial`."""
    connection.ensure_connection()
    missing = _migrations() - MigrationRecorder(connection).applied_migrations().keys()
    return sorted(".".join(key) for key in missing)


@functools.cache
def _migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


# Metrics -------------------------------------------------------------------------------------------------------------


def start() -> None:
    events.THREADS.set(settings.WEB_THREADS)
    events.BUILD_INFO.labels(settings.VERSION, platform.python_version()).set(1)
    for event in Event:  # Prometheus's `rate` includes the first event only if the count was 0 before
        events.EVENTS.labels(event.name.lower())
    Worker("metrics", read_metrics, PAUSE_SECONDS).start()


def read_metrics() -> bool:
    """Set the metrics from the database. Return False, so `Worker` waits for PAUSE_SECONDS. Raises django.db.Error."""
    limit = Timer(WAIT_SECONDS, events.DATABASE_UP.set, [0])
    limit.start()
    try:
        rows, retried = OutgoingMail.objects.exclude(sealed=b""), Count("pk", filter=Q(attempts__gt=0))
        found = rows.order_by()[:MOST_ROWS].aggregate(waiting=Count("pk"), retried=retried, due_at=Min("due_at"))
        events.QUEUE_WAITING.labels("mails").set(found["waiting"])
        events.QUEUE_RETRIED.labels("mails").set(found["retried"])
        events.QUEUE_OVERDUE.labels("mails").set(max(_age(found["due_at"]), 0) if found["due_at"] else 0)
        if finished_at := purging.last_finished():
            events.PURGE_AGE.set(_age(finished_at))
        keys = SigningKey.objects.filter(revoked_at=None).order_by().values_list("algorithm")
        for algorithm, made_at in keys.annotate(at=Max("made_at")):
            events.SIGNING_KEY_AGE.labels(algorithm).set(_age(made_at))
    except Error:
        events.DATABASE_UP.set(0)
        raise
    finally:
        limit.cancel()
    events.DATABASE_UP.set(1)
    return False


def _age(at: datetime) -> float:  # in seconds
    return (timezone.now() - at).total_seconds()
