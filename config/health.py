"""Whether the process runs, and whether it can do its work. For load balancers; no session, no person, no detail."""

from __future__ import annotations

import functools
import logging

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from config.cache import is_redis_answering

logger = logging.getLogger(__name__)


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """200 while the process answers. Touches neither the database nor Redis."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """200 when the database answers and is migrated, else 503. Redis is told of but never decides (D21)."""
    parts = {"database": _database(), "redis": _redis()}
    is_ready = parts["database"] == "ok"
    return JsonResponse({"status": "ok" if is_ready else "unavailable", **parts}, status=200 if is_ready else 503)


def _database() -> str:
    try:
        connection.ensure_connection()
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError:
        logger.warning("The database does not answer.", exc_info=True)
        return "unavailable"
    return "ok" if _needed() <= applied.keys() else "migrations pending"


@functools.cache
def _needed() -> frozenset[tuple[str, str]]:
    """The migrations of this version, read from the disk once."""
    return frozenset(MigrationLoader(None).graph.nodes)


def _redis() -> str:
    if not settings.REDIS_URL:
        return "not used"
    return "ok" if is_redis_answering() else "unavailable"
