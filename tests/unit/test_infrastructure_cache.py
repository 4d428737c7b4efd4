"""Limits are counted in Redis: fail open while it is away, silent, and back (D21)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from config.environment import redis_options
from config.infrastructure import rate_limits as module
from config.infrastructure.rate_limits import FailOpenRedisCache, Outage, RateLimitCache


@pytest.fixture(autouse=True)
def no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "outage", Outage())


@pytest.fixture
def caches_of(settings: Any) -> Any:
    """`caches_of(url, seconds)` makes both caches of a Redis, whose socket has this time-out."""

    def make(url: str, seconds: float = 20) -> tuple[RateLimitCache, FailOpenRedisCache]:
        options = {**redis_options(), "socket_timeout": seconds}
        settings.REDIS_URL, settings.CACHES = url, {"default": {"OPTIONS": options}}
        return RateLimitCache(url, {"OPTIONS": options}), FailOpenRedisCache(url, {"OPTIONS": options})

    return make


@pytest.fixture
def away(caches_of: Any) -> Iterator[FailOpenRedisCache]:
    """A port where nothing listens, and nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield caches_of(f"redis://127.0.0.1:{held.getsockname()[1]}/0")[1]


ANSWERS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("add", ("key", 1, 60), True),
    ("get", ("key",), None),
    ("get", ("key", 7), 7),
    ("set", ("key", 1), None),
    ("delete", ("key",), False),
]


def test_no_operation_fails_while_redis_is_away(away: FailOpenRedisCache, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (0, 60):  # Redis is tried each time, and not at all
        monkeypatch.setattr(module, "RETRY_AFTER_SECONDS", seconds)
        assert [(name, getattr(away, name)(*arguments)) for name, arguments, _ in ANSWERS] == [
            (name, answer) for name, _, answer in ANSWERS
        ]


def counted(cache: RateLimitCache, key: str, events: int) -> int | None:
    """As django-ratelimit asks: None while Redis is away."""
    assert not cache.add(key, events, 60)
    return cache.incr(key)


@pytest.mark.integration
def test_limits_are_counted_again_when_redis_is_back(
    redis_server: Any, caches_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_AFTER_SECONDS", 0)
    cache, other = caches_of(redis_server.url)
    assert [(cache.add("key", 1, 60), cache.incr("key")) for _ in range(2)] == [(False, 1), (False, 2)]
    assert (cache.add("key", 0, 60), cache.get("key")) == (False, 2)
    assert [other.add("other", 1, 60), other.add("other", 1, 60), other.get("other")] == [True, False, 1]
    redis_server.kill()
    assert (cache.add("key", 1, 60), cache.incr("key")) == (False, None)
    assert [other.add("other", 1, 60), other.get("other")] == [True, None]
    redis_server.start()
    assert [(cache.add("key", 1, 60), cache.incr("key")) for _ in range(2)] == [(False, 1), (False, 2)]
    redis_server.kill()
    redis_server.start()
    assert (counted(cache, "narrow", 2), counted(cache, "wide", 0)) == (2, 0), "the connection of before is closed"


def test_a_silent_redis_costs_one_time_out_a_second(caches_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = [1000.0], []
    monkeypatch.setattr("config.infrastructure.rate_limits.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        silent.setblocking(False)
        _, cache = caches_of(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", 0.25)
        for _second in range(3):
            assert all(cache.add("key", 1, 60) for _ in range(100))
            tries.append(0)
            with suppress(BlockingIOError):
                while True:
                    silent.accept()[0].close()
                    tries[-1] += 1
            now[0] += 1
    assert tries == [1, 1, 1]


def test_the_outage_is_logged_once_in_ten_seconds(
    away: FailOpenRedisCache, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.rate_limits.time.monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO, logger="config.infrastructure.rate_limits"):
        for _ in range(19):
            away.get("key")
            now[0] += 0.5
        assert len(caplog.records) == 1
        now[0] += 2
        away.get("key")
    assert [record.message for record in caplog.records] == ["Redis is away: limits are not counted."] * 2
    another = RateLimitCache("", {})
    assert another.call(lambda: True, False) is False, "the caches learn from each other"


@pytest.mark.integration
def test_a_late_answer_is_not_taken_for_the_next_one(
    redis_server: Any, caches_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, _ = caches_of(redis_server.url, 2)
    assert counted(cache, "narrow", 7) == 7
    redis_server.pause()
    assert counted(cache, "narrow", 0) is None
    redis_server.go_on()
    monkeypatch.setattr(module, "outage", Outage())
    assert counted(cache, "wide", 1) == 1
