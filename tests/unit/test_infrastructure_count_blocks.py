"""Large limits are counted in blocks: never exceeded, and reached early by less than one block for each process. L9."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Connection

from config.infrastructure import cache as cache_module
from config.infrastructure import rate_limits
from config.infrastructure.cache import Breaker, RateLimitCache
from config.infrastructure.count_blocks import Blocks
from config.infrastructure.rate_limits import Counter
from tests.contract_coverage import contract

WAIT_SECONDS = 60


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


def counted(blocks: Blocks, server: Server, size: int, events: int = 1, key: str = "key") -> int | None:
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
        count = counted(processes[number], server, size) if number < 2 else server.ask(1)
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
    assert [counted(blocks, server, 6) for _ in range(13)] == [*range(1, 14)]
    assert server.asked == [6, 6, 6]
    assert [counted(blocks, server, 6, events=0) for _ in range(3)] == [13] * 3
    assert [counted(blocks, server, 6) for _ in range(5)] == [*range(14, 19)]
    assert counted(blocks, server, 6, events=0) == 18
    assert server.asked == [6, 6, 6, 0]


def test_while_a_thread_asks_for_a_block_others_count_one_by_one_and_do_not_wait() -> None:
    blocks, server, asks, goes_on = Blocks(), Server(), threading.Event(), threading.Event()

    def ask_slowly(events: int) -> int:
        asks.set()
        assert goes_on.wait(WAIT_SECONDS)
        return server.ask(events)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(blocks.add, "key", 1, 6, 65, ask_slowly)
        assert asks.wait(WAIT_SECONDS)
        assert [counted(blocks, server, 6) for _ in range(3)] == [1, 2, 3]
        goes_on.set()
        assert slow.result() == 4
    assert counted(blocks, server, 6) == 5
    assert server.asked == [1, 1, 1, 6]


def test_many_applications_do_not_make_a_process_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond SIZE are counted one by one, until blocks of earlier periods are deleted."""
    now = [1000.0]
    monkeypatch.setattr("config.infrastructure.count_blocks.time.monotonic", lambda: now[0])
    blocks, server = Blocks(), Server()
    for number in range(10_000):
        counted(blocks, server, 6, key=str(number))
    assert len(blocks._blocks) == Blocks.SIZE
    assert server.asked == [6] * Blocks.SIZE + [1] * (10_000 - Blocks.SIZE)
    assert counted(blocks, server, 6, key="0") == 2, "a block is not taken away from its key"
    now[0] += 65
    counted(blocks, server, 6, key="new")
    assert [*blocks._blocks] == ["new"]


# As the limits use them, in Redis -------------------------------------------------------------------------------------


@pytest.fixture
def sent(redis_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """The commands that this process sends to a Redis of the test."""
    settings.CACHES = {
        **settings.CACHES,
        "limits": {"BACKEND": "config.infrastructure.cache.RateLimitCache", "LOCATION": redis_server.url},
    }
    commands: list[tuple[Any, ...]] = []
    send = Connection.send_command

    def send_command(connection: Connection, *command: Any, **options: Any) -> None:
        if command[0] in {"INCRBY", "GET"}:
            commands.append((command[0], *command[2:]))
        send(connection, *command, **options)

    monkeypatch.setattr(Connection, "send_command", send_command)
    yield commands
    cache_module._blocks.pop(redis_server.url, None)


def admitted(name: str, events: int) -> int:
    return [rate_limits.count(Counter(name, "17", in_blocks=True)) for _ in range(events)].count(0)


@contract("D21.blocks")
@pytest.mark.parametrize(("rate", "size"), [("600/m", 6), ("999/10s", 9), ("600/2m", 1)])
def test_limits_from_600_a_minute_are_counted_in_blocks_of_one_percent(
    settings: Any, sent: list[Any], time_machine: Any, rate: str, size: int
) -> None:
    time_machine.move_to(time.time(), tick=False)
    settings.RATES = {"userinfo": rate}
    limit = int(rate.partition("/")[0])
    for _window in range(2):  # a block ends with its window
        assert admitted("userinfo", limit + size) == limit
        assert sent == [("INCRBY", size)] * math.ceil(limit / size + 1)
        time_machine.shift(1 + rate_limits.count(Counter("userinfo", "17", in_blocks=True)))
        del sent[:]


def test_other_counters_are_exact_whatever_was_counted_before(settings: Any, sent: list[Any]) -> None:
    settings.RATES = {"userinfo": "6000/m"}
    for in_blocks in (True, False, True, False):
        rate_limits.count(Counter("userinfo", f"17 {in_blocks}", in_blocks=in_blocks))
    assert sent == [("INCRBY", 60), ("INCRBY", 1), ("INCRBY", 1)]


def test_no_block_is_asked_for_while_redis_is_silent(sent: list[Any], redis_server: Any) -> None:
    """Redis counts what it receives late, and such a block would be lost each second."""
    cache = RateLimitCache(redis_server.url, {})
    cache.breaker = Breaker()
    cache.breaker.failed(OSError())
    cache.breaker._try_again_at = 0.0
    for count in (1, 2, 3):
        cache.block_size = 6
        assert (cache.add("key", 1, 65), cache.incr("key")) == (False, count)
    assert sent == [("INCRBY", 1), ("INCRBY", 6)]
