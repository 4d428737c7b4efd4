"""What is counted, and nothing of a person or an application is. tests/faults/test_metrics.py reads `/metrics`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY
from redis.exceptions import RedisError

from accounts.mail import outbox
from accounts.mail.outbox import Email
from accounts.models import OutgoingMail
from accounts.passwords import hashing
from config import health
from config.infrastructure.rate_limits import Outage
from oauth_bridge.models import PurgeRun, SigningKey


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"delegated_{name}", labels) or 0.0


def answers(route: str, status: str) -> float:
    return value("http_request_duration_seconds_count", method="GET", route=route, status=status)


@pytest.mark.django_db
def test_a_request_is_counted_by_route_and_status_and_its_refusal_by_code(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = {"route": "/oauth/userinfo", "error": "invalid_token", "code": "token_missing"}

    def counted() -> list[float]:
        return [answers("/oauth/userinfo", "4xx"), answers("none", "4xx"), value("refusals_total", **refused)]

    before = counted()
    client.get("/oauth/userinfo")
    client.get("/typed-by-mallory")
    assert counted() == [each + 1 for each in before]
    found = [str(sample.labels.values()) for family in REGISTRY.collect() for sample in family.samples]
    assert not [labels for labels in found if "mallory" in labels]
    monkeypatch.setattr("oauth_bridge.activity.recording.record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.get("/oauth/userinfo")
    assert value("http_requests_in_flight") == 0, "one that breaks off is not in flight"


def test_the_wait_for_a_password_and_an_outage_of_redis_are_counted() -> None:
    before = value("password_wait_seconds_count")
    hasher = hashing.PasswordHasher()
    assert hasher.verify("correct horse", hasher.encode("correct horse", "saltsaltsalt"))
    assert value("password_wait_seconds_count") == before + 2
    outage = Outage()
    for error in (RedisError(), None):
        outage.change(error)
        assert value("redis_away_workers") == bool(error)


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

    def away(*_: object) -> None:
        raise OperationalError

    monkeypatch.setattr(health, "_read_mails", away)
    with pytest.raises(OperationalError):
        health.read_metrics()
    assert value("database_up") == 0
