"""Health checks for load balancers. They use no session, and their answers contain no error message."""

from __future__ import annotations

import functools
import logging
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from config.infrastructure.rate_limits import is_redis_answering
from oauth_bridge.maintenance import purging
from oauth_bridge.storage import activity_counts

logger = logging.getLogger(__name__)

# The state of the database that this process logged last.
_told = ["ok"]


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """Return 200 while the process runs. This view uses neither the database nor Redis."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Return 200 if the database answers, is migrated and can be written, otherwise 503.

    This view writes nothing itself: a thread of each worker does. Redis and the purge do not matter (D21).
    The answer contains the version, which the OpenAPI document publishes too.
    """
    database = _database()
    is_ready = database == "ok"
    status = "ok" if is_ready else "unavailable"
    parts = {"database": database, "redis": _redis(), "purge": _purge() if is_ready else _purge_age(None)}
    return JsonResponse({"status": status, "version": settings.VERSION, **parts}, status=200 if is_ready else 503)


def _database() -> str:
    """Return the state of the database. Log it only if it has changed."""
    try:
        database, error = "migrations pending" if missing_migrations() else "ok", None
        if database == "ok" and not activity_counts.is_writable():
            database = "read-only"
    except DatabaseError as caught:
        database, error = "unavailable", caught
    if _told != [database]:
        _told[:] = [database]
        level = logging.INFO if database == "ok" else logging.WARNING
        logger.log(level, "readiness", extra={"database": database}, exc_info=error)
    return database


def missing_migrations() -> list[str]:
    """Return the migrations that are not applied, such as `oauth_bridge.0001_initial`.

    Raises DatabaseError: the database does not answer.
    """
    connection.ensure_connection()
    missing = _migrations() - MigrationRecorder(connection).applied_migrations().keys()
    return sorted(".".join(key) for key in missing)


@functools.cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Return the app and name of each migration in the code. The files are read once for each process."""
    return frozenset(MigrationLoader(None).graph.nodes)


def _redis() -> str:
    if not settings.REDIS_URL:
        return "not used"
    return "ok" if is_redis_answering() else "unavailable"


def _purge() -> dict[str, str | int | None]:
    """Return the time of the last complete `manage.py purge`, and the seconds since then."""
    try:
        return _purge_age(purging.last_finished())
    except DatabaseError:
        logger.warning("The age of the last purge can't be read.", exc_info=True)
        return _purge_age(None)


def _purge_age(finished: datetime | None) -> dict[str, str | int | None]:
    if finished is None:
        return {"last_finished": None, "age_seconds": None}
    age = timezone.now() - finished
    return {"last_finished": finished.isoformat(timespec="seconds"), "age_seconds": max(int(age.total_seconds()), 0)}
