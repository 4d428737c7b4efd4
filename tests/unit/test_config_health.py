"""The health checks for load balancers (config.health). D21."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client

from config import health
from oauth_bridge.models import PurgeRun


def test_live_uses_no_database_and_no_session(client: Client) -> None:
    """No database fixture: a statement would fail the test."""
    response = client.get("/health/live")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert not response.cookies
    assert client.post("/health/live").status_code == 405


def test_not_ready_without_a_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """No database fixture: a statement would fail the test."""

    def refuse() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(health.connection, "ensure_connection", refuse)
    response = client.get("/health/ready")
    assert (response.status_code, response.json()["database"]) == (503, "unavailable")
    assert response.json()["purge"] == {"last_finished": None, "age_seconds": None}


@pytest.mark.django_db
def test_redis_and_the_age_of_the_last_purge_are_reported_and_do_not_change_the_status(
    client: Client, settings: Any, time_machine: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.CACHES = {
        "default": {"BACKEND": "config.infrastructure.cache.FailOpenRedisCache", "LOCATION": settings.REDIS_URL}
    }
    PurgeRun.objects.all().delete()
    assert client.get("/health/ready").json()["purge"] == {"last_finished": None, "age_seconds": None}
    time_machine.move_to(datetime(2026, 11, 21, 12, tzinfo=UTC), tick=False)
    call_command("purge")
    time_machine.shift(timedelta(days=30))
    response = client.get("/health/ready")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "version": settings.VERSION,
        "database": "ok",
        "redis": "unavailable",
        "purge": {"last_finished": "2026-11-21T12:00:00+00:00", "age_seconds": 30 * 24 * 3600},
    }


@pytest.mark.django_db
def test_the_log_tells_once_that_the_service_is_not_ready_and_once_that_it_is_again(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(health, "_told", ["ok"])
    pending = frozenset({("accounts", "9999_next")})
    for migrations in (pending, pending, frozenset(), frozenset()):
        with monkeypatch.context() as patch:
            patch.setattr(health, "_migrations", lambda found=migrations: found)
            answer = client.get("/health/ready")
            expected = (503, "migrations pending") if migrations else (200, "ok")
            assert (answer.status_code, answer.json()["database"]) == expected
    told = [(record.levelname, record.database) for record in caplog.records if record.name == "config.health"]
    assert told == [("WARNING", "migrations pending"), ("INFO", "ok")]
    assert not [record for record in caplog.records if record.getMessage() == "refused"]
    assert client.post("/health/ready").status_code == 405
    assert [record.cause for record in caplog.records if record.getMessage() == "refused"] == ["method"]
