"""Counts that a process takes from Redis in blocks, so that an event rarely needs a round trip (L9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Block:
    """Consecutive counts that Redis has given to this process for one key. Counts from `next` to `last` are unused."""

    next: int
    last: int
    ends_at: float  # in monotonic time; after this time, the key is not used
    is_asked_for: bool = False


class Blocks:
    """The blocks of this process, which all its threads share. A key has at most one block with unused counts.

    While there are `SIZE` blocks, a further key gets no block, and Redis counts its events one by one.
    """

    SIZE = 1_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[str, Block] = {}  # the oldest block first

    def add(self, key: str, events: int, size: int, seconds: float, ask: Callable[[int], int | None]) -> int | None:
        """Add 0 or 1 events to the count of the key. Return the new count, or None while Redis does not answer.

        `ask` adds its argument to the count in Redis and returns the sum. `ask` is called if the block of the key has
        no unused count. For a new block, its argument is `size`. Its argument is `events` if `events` is 0, if another
        thread already requests a block, or if there are `SIZE` blocks.
        """
        with self._lock:
            if (block := self._blocks.get(key)) and block.next <= block.last:
                block.next += events
                return block.next - 1
            asked = self._ask_for(key, seconds) if events and not (block and block.is_asked_for) else None
        if asked is None:
            return ask(events)
        last = ask(size)
        with self._lock:
            asked.is_asked_for = False
            if last is None:
                return None
            asked.next, asked.last = last - size + 2, last
        return last - size + 1

    def _ask_for(self, key: str, seconds: float) -> Block | None:
        """Delete the blocks of ended periods. Return an empty block for the key, or None if there are too many."""
        now = time.monotonic()
        self._blocks.pop(key, None)
        while self._blocks and (oldest := next(iter(self._blocks))) and self._blocks[oldest].ends_at <= now:
            del self._blocks[oldest]
        if len(self._blocks) >= self.SIZE:
            return None
        return self._blocks.setdefault(key, Block(1, 0, now + seconds, is_asked_for=True))
