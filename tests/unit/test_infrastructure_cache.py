"""Limits are counted in Redis: fail open while it is away, silent, and back (D21); large ones in blocks (L9)."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.core.cache.backends.redis import RedisCache
from hypothesis import given, settings
from hypothesis import strategies as st

from config.infrastructure import cache as module
from config.infrastructure.cache import Breaker, FailOpenRedisCache, RateLimitCache
from config.infrastructure.count_blocks import Blocks
from tests.contract_coverage import contract

SOCKET_TIMEOUT_SECONDS = module.SOCKET_TIMEOUT_SECONDS  # before tests get a longer one


@pytest.fixture
def away() -> Iterator[FailOpenRedisCache]:
    """A port where nothing listens, and nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield FailOpenRedisCache(f"redis://127.0.0.1:{held.getsockname()[1]}/0", {})


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


@pytest.mark.integration
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


def test_a_silent_redis_costs_one_time_out_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOCKET_TIMEOUT_SECONDS", SOCKET_TIMEOUT_SECONDS)
    now, tries = [1000.0], []
    monkeypatch.setattr("config.infrastructure.cache.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        silent.setblocking(False)
        cache = FailOpenRedisCache(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", {})
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


@pytest.mark.integration
def test_a_late_answer_is_not_taken_for_the_next_one(redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOCKET_TIMEOUT_SECONDS", 2)
    cache = RateLimitCache(redis_server.url, {})
    assert counted(cache, "narrow", 7) == 7
    redis_server.pause()
    assert counted(cache, "narrow", 0) is None
    redis_server.go_on()
    cache.breaker = Breaker()
    assert counted(cache, "wide", 1) == 1


# Blocks. As the limits use them, in Redis: tests/faults/test_limits_in_blocks.py.


class Server:
    """The count of one key in Redis. `asked` has the number of events of each question."""

    def __init__(self) -> None:
        self.count = 0
        self.asked: list[int] = []
        self._lock = threading.Lock()

    def ask(self, events: int) -> int:
        with self._lock:
            self.asked.append(events)
            self.count += events
            return self.count


def taken(blocks: Blocks, server: Server, size: int, events: int = 1, key: str = "key") -> int | None:
    return blocks.add(key, events, size, 65, server.ask)


@contract("D21.blocks")
@settings(deadline=None)
@given(
    size=st.integers(2, 9),
    limit=st.integers(1, 60),
    turns=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=120),
)
def test_a_limit_is_never_exceeded_and_a_refusal_leaves_less_than_a_block_in_each_other_process(
    size: int, limit: int, turns: list[tuple[int, bool]]
) -> None:
    """A process that ends, and one of the former release that counts one by one, count in the same window."""
    server, processes, admitted, ended = Server(), [Blocks() for _ in range(2)], 0, 0
    for number, ends in turns:
        count = taken(processes[number], server, size) if number < 2 else server.ask(1)
        assert count is not None
        if count <= limit:
            admitted += 1
        else:
            others = 1 if number < 2 else 2
            assert admitted >= limit - (size - 1) * (others + ended)
        if ends and number < 2:
            processes[number], ended = Blocks(), ended + 1
    assert admitted <= limit


def test_an_event_asks_redis_once_in_a_block_and_a_look_takes_no_count() -> None:
    blocks, server = Blocks(), Server()
    assert blocks.add("key", 1, 6, 65, lambda _events: None) is None, "a block that is not given is asked for again"
    assert [taken(blocks, server, 6) for _ in range(13)] == [*range(1, 14)]
    assert server.asked == [6, 6, 6]
    assert [taken(blocks, server, 6, events=0) for _ in range(3)] == [13] * 3
    assert [taken(blocks, server, 6) for _ in range(5)] == [*range(14, 19)]
    assert taken(blocks, server, 6, events=0) == 18
    assert server.asked == [6, 6, 6, 0]


def test_while_a_thread_asks_for_a_block_others_count_one_by_one_and_do_not_wait() -> None:
    blocks, server, asks, goes_on = Blocks(), Server(), threading.Event(), threading.Event()

    def ask_slowly(events: int) -> int:
        asks.set()
        assert goes_on.wait(60)
        return server.ask(events)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(blocks.add, "key", 1, 6, 65, ask_slowly)
        assert asks.wait(60)
        assert [taken(blocks, server, 6) for _ in range(3)] == [1, 2, 3]
        goes_on.set()
        assert slow.result() == 4
    assert taken(blocks, server, 6) == 5
    assert server.asked == [1, 1, 1, 6]


def test_many_applications_do_not_make_a_process_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond SIZE are counted one by one, until blocks of earlier periods are deleted."""
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.count_blocks.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Blocks, "SIZE", 3)
    blocks, server = Blocks(), Server()
    assert [taken(blocks, server, 6, key=key) for key in "abcdea"] == [1, 7, 13, 19, 20, 2]
    assert server.asked == [6, 6, 6, 1, 1], "a block is not taken away from its key"
    now[0] += 65
    taken(blocks, server, 6, key="new")
    assert [*blocks._blocks] == ["new"]
