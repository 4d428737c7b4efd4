"""What is counted, and that nothing of a person, an application or a stranger's text is."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver
from prometheus_client import values
from redis.exceptions import RedisError

from accounts.passwords import hashing
from config import metrics
from config.infrastructure import events, measures
from config.infrastructure.cache import Breaker
from config.infrastructure.events import Event
from config.metrics import meter, slots


class Recorder:
    """A meter that keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.calls.append((name, *values))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [values for called, *values in self.calls if called == name]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(measures, "meter", recorder)
    return recorder


@pytest.mark.django_db
def test_a_request_is_counted_by_route_and_status_and_its_refusal_by_code(
    client: Client, told: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get("/oauth/userinfo")
    client.get("/accounts/password/reset/MQ-secret/")
    ((method, route, status, seconds), other) = told.of("request_answered")
    assert (method, route, status) == ("GET", "/oauth/userinfo", 401)
    assert seconds > 0
    assert other[1] == "none"
    assert told.of("request_refused")[0] == ["/oauth/userinfo", "invalid_token", "token_missing"]
    assert "secret" not in str(told.calls)
    monkeypatch.setattr("oauth_bridge.activity_recording.record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.get("/oauth/userinfo")
    assert len(told.of("request_began")) == len(told.of("request_ended")) == 3, "one that breaks off is not in flight"


def test_events_the_wait_for_a_password_and_an_outage_of_redis_are_told(told: Recorder) -> None:
    events.write(Event.HOST_NOT_SERVED, host="stranger.example", allowed_hosts="")
    breaker = Breaker()
    breaker.failed(RedisError())
    breaker.succeeded()
    breaker.succeeded()
    assert told.calls == [("event_written", "host_not_served"), ("redis_is_away", True), ("redis_is_away", False)]
    hasher = hashing.PasswordHasher()
    assert hasher.verify("correct horse", hasher.encode("correct horse", "saltsaltsalt"))
    waits = told.of("password_waited")
    assert len(waits) == 2
    assert all(seconds >= 0 for (seconds,) in waits)


def test_each_label_has_few_values() -> None:
    counted = meter.PrometheusMeter(2)
    for method in ("GET", "POST", "DELETE", "other"):
        counted.request_began()
        counted.request_answered(method, "/oauth/token", 200, 0.01)
        counted.publish()
    assert meter.registry.get_sample_value("delegated_http_requests_in_flight") == 1, "of a thread"
    counted.request_ended()
    counted.publish()
    assert meter.registry.get_sample_value("delegated_http_requests_in_flight") == 0
    counted.request_refused("/oauth/token", "invalid_grant", "code_expired")
    counted.event_written("signed_in")
    counted.password_waited(0.02)
    counted.redis_is_away(True)
    samples = [sample for family in meter.registry.collect() for sample in family.samples]
    assert {label for sample in samples for label in sample.labels} == {
        *("method", "route", "status", "error", "code", "event", "le"),
    }
    methods = {sample.labels["method"] for sample in samples if "method" in sample.labels}
    assert methods == {"GET", "POST", "other"}
    assert {sample.labels["status"] for sample in samples if "status" in sample.labels} == {"2xx"}
    known = {event.name.lower() for event in Event}
    assert {sample.labels["event"] for sample in samples if "event" in sample.labels} == known


def test_the_files_have_space_for_every_route_so_that_a_full_disk_kills_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue(lambda: 0))
    monkeypatch.setattr(metrics, "meter", meter)  # to be set back
    monkeypatch.delitem(sys.modules, meter.__name__)
    of_worker = import_module(meter.__name__)  # its metrics, in files
    counted = of_worker.PrometheusMeter(2)
    routes = sorted(f"{prefix}{route}" for prefix, route in every_route(get_resolver()))
    assert len(routes) > 80
    for route in routes:
        for method, status in itertools.product(("GET", "POST", "other"), (200, 302, 404, 503)):
            counted.request_answered(method, route, status, 0.01)
        for code in range(20):
            counted.request_refused(route, "temporarily_unavailable", f"credentials_in_the_address_{code}")
    assert {path.name for path in tmp_path.iterdir()} == {f"{kind}_0.db" for kind in slots.BYTES}
    for kind, size in slots.BYTES.items():
        used = int.from_bytes((tmp_path / f"{kind}_0.db").read_bytes()[:4], sys.byteorder)
        assert used <= size


def every_route(resolver: URLResolver, before: str = "/") -> Iterator[tuple[str, str]]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from every_route(each, f"{before}{each.pattern}")
        else:
            yield before, str(each.pattern)
