"""The health checks for load balancers, and the metrics; faults/test_under_load.py reads `/metrics`. D21."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY

from accounts.mail import outbox
from accounts.mail.outbox import Email
from accounts.models import OutgoingMail
from accounts.passwords import hashing
from config import health
from oauth_bridge.activity import counts
from oauth_bridge.models import PurgeRun, SigningKey, WriteProof


def away(*_: object) -> None:
    raise OperationalError


def test_without_a_database_the_service_lives_and_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    response = client.get("/health/live")
    assert (response.json(), [*response.cookies]) == ({"status": "ok"}, [])
    monkeypatch.setattr(health.connection, "ensure_connection", away)
    response = client.get("/health/ready")
    assert (response.status_code, response.json()["database"]) == (503, "unavailable")
    assert response.json()["purge"] == {"last_finished": None, "age_seconds": None}


def state_of(client: Client) -> tuple[int, str]:
    response = client.get("/health/ready")
    return response.status_code, response.json()["database"]


@pytest.mark.django_db(transaction=True)
def test_without_migrations_or_writes_a_database_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(health, "_migrations", lambda: frozenset({("accounts", "9999_next")}))
        assert state_of(client) == (503, "migrations pending")
    monkeypatch.setattr(counts, "_proved_at", None)
    is_postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on" if is_postgresql else "PRAGMA query_only = on")
    assert state_of(client) == (503, "read-only")
    assert state_of(client) == (200, "ok")
    written_at = WriteProof.objects.get().written_at
    assert state_of(client) == (200, "ok")
    assert WriteProof.objects.get().written_at == written_at, "a flood of probes writes once in five seconds"


@pytest.mark.django_db
def test_redis_and_the_age_of_the_last_purge_are_reported_and_do_not_change_the_status(
    client: Client, settings: Any, redis_away: None, time_machine: Any
) -> None:
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


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"delegated_{name}", labels) or 0.0


def test_the_wait_for_a_password_is_counted() -> None:
    before = value("password_wait_seconds_count")
    hashing.PasswordHasher().encode("correct horse", "saltsaltsalt")
    assert value("password_wait_seconds_count") == before + 1


def queue(name: str) -> tuple[float, ...]:
    return tuple(value(f"queue_{each}", queue=name) for each in ("waiting", "retried", "overdue_seconds"))


@pytest.mark.integration
@pytest.mark.django_db
def test_queues_and_ages_are_those_of_the_database(time_machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    health.read_metrics()
    assert queue("mails") == (0, 0, 0)
    now = timezone.now().replace(microsecond=0)
    time_machine.move_to(now, tick=False)
    for attempts, due_at in ((3, now + timedelta(minutes=5)), (0, now - timedelta(minutes=5))):
        outbox.add_notice("test", Email("a@example.org", "s", "t", "h"), once=str(attempts))
        OutgoingMail.objects.filter(attempts=0).update(attempts=attempts, due_at=due_at)
    OutgoingMail.objects.create(kind="sent", sealed=b"", due_at=now, expires_at=now)
    PurgeRun.objects.create(finished_at=now - timedelta(hours=2))
    for days, revoked_at in ((100, None), (30, None), (1, now)):
        SigningKey.objects.create(
            kid=str(days), algorithm="ES256", made_at=now - timedelta(days=days), signs_from=now, revoked_at=revoked_at
        )
    health.read_metrics()
    assert queue("mails") == (2, 1, 300)
    assert value("purge_age_seconds") == 7200
    assert value("signing_key_age_seconds", algorithm="ES256") == 30 * 86400
    assert value("database_up") == 1
    monkeypatch.setattr(health.purging, "last_finished", away)
    with pytest.raises(OperationalError):
        health.read_metrics()
    assert value("database_up") == 0
