"""The cache while Redis is away, silent, and back (D21)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.core.cache.backends.redis import RedisCache

from config.infrastructure import cache as module
from config.infrastructure.cache import Breaker, FailOpenRedisCache, RateLimitCache

SOCKET_TIMEOUT_SECONDS = module.SOCKET_TIMEOUT_SECONDS  # before tests get a longer one


@pytest.fixture
def away() -> Iterator[FailOpenRedisCache]:
    """A port where nothing listens, and nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield FailOpenRedisCache(f"redis://127.0.0.1:{held.getsockname()[1]}/0", {})


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.setblocking(False)
        yield listener


ANSWERS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("add", ("key", 1, 60), True),
    ("get", ("key",), None),
    ("get", ("key", 7), 7),
    ("set", ("key", 1), None),
    ("touch", ("key",), False),
    ("delete", ("key",), False),
    ("get_many", (["key"],), {}),
    ("has_key", ("key",), False),
    ("incr", ("key",), 1),
    ("incr", ("key", 5), 5),
    ("set_many", ({"key": 1},), ["key"]),
    ("delete_many", (["key"],), None),
    ("clear", (), None),
    ("is_answering", (), False),
    ("get_or_set", ("key", 3), 3),
]


def test_no_operation_fails_while_redis_is_away(away: FailOpenRedisCache, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (0, 60):  # Redis is tried each time, and not at all
        monkeypatch.setattr(module, "RETRY_AFTER_SECONDS", seconds)
        assert [(name, getattr(away, name)(*arguments)) for name, arguments, _ in ANSWERS] == [
            (name, answer) for name, _, answer in ANSWERS
        ]
    reaching = {name for name in vars(RedisCache) if not name.startswith("_")} - {"get_backend_timeout"}
    assert reaching <= set(vars(FailOpenRedisCache))


def counted(cache: RateLimitCache, key: str, events: int) -> int | None:
    """As django-ratelimit asks: None while Redis is away."""
    assert not cache.add(key, events, 60)
    return cache.incr(key)


def test_limits_are_counted_again_when_redis_is_back(redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_AFTER_SECONDS", 0)
    cache, other = RateLimitCache(redis_server.url, {}), FailOpenRedisCache(redis_server.url, {})
    assert [(cache.add("key", 1, 60), cache.incr("key")) for _ in range(2)] == [(False, 1), (False, 2)]
    assert (cache.add("key", 0, 60), cache.get("key")) == (False, 2)
    assert other.is_answering()
    assert [other.add("other", 1, 60), other.add("other", 1, 60), other.incr("other")] == [True, False, 2]
    redis_server.kill()
    assert (cache.add("key", 1, 60), cache.incr("key")) == (False, None)
    assert [other.add("other", 1, 60), other.incr("other")] == [True, 1]
    redis_server.start()
    assert [(cache.add("key", 1, 60), cache.incr("key")) for _ in range(2)] == [(False, 1), (False, 2)]
    redis_server.kill()
    redis_server.start()
    assert (counted(cache, "narrow", 2), counted(cache, "wide", 0)) == (2, 0), "the connection of before is closed"


def test_a_silent_redis_costs_one_time_out_a_second(silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOCKET_TIMEOUT_SECONDS", SOCKET_TIMEOUT_SECONDS)
    cache = FailOpenRedisCache(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", {})
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.cache.time.monotonic", lambda: now[0])
    tries = []
    for _second in range(3):
        for _ in range(100):
            assert cache.add("key", 1, 60)
        tries.append(connections_of(silent))
        now[0] += 1
    assert tries == [1, 1, 1]


def connections_of(listener: socket.socket) -> int:
    """How many there were since the last call."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def test_the_outage_is_logged_once_in_ten_seconds(
    away: FailOpenRedisCache, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.cache.time.monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO, logger="config.infrastructure.cache"):
        for _ in range(19):
            away.get("key")
            now[0] += 0.5
        assert len(caplog.records) == 1
        now[0] += 2
        away.get("key")
    assert [record.message for record in caplog.records] == ["Redis is away: limits are not counted."] * 2
    another = FailOpenRedisCache(away.url, {})
    assert not another.breaker.allows_call(), "caches of one server learn from each other"


def test_one_caller_a_second_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.cache.time.monotonic", lambda: now[0])
    breaker = Breaker()
    assert breaker.allows_call()
    breaker.failed(OSError())
    assert not breaker.allows_call()
    now[0] += 1.1
    assert [breaker.allows_call(), breaker.allows_call()] == [True, False]
    breaker.succeeded()
    assert [breaker.allows_call(), breaker.allows_call()] == [True, True]


def test_a_late_answer_is_not_taken_for_the_next_one(redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOCKET_TIMEOUT_SECONDS", 2)
    cache = RateLimitCache(redis_server.url, {})
    assert counted(cache, "narrow", 7) == 7
    redis_server.pause()
    assert counted(cache, "narrow", 0) is None
    redis_server.go_on()
    cache.breaker = Breaker()
    assert counted(cache, "wide", 1) == 1
