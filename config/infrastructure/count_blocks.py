"""Counts that a process takes from Redis in blocks, so that an event rarely needs a round trip (L9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Block:
    """Consecutive counts of one key that Redis has given to this process. Those from `next` to `last` are unused."""

    next: int
    last: int
    ends_at: float  # on the monotonic clock: the key is not used any more
    is_asked_for: bool = False


class Blocks:
    """The blocks of this process, shared by its threads. A process has at most one unused block of a key.

    While there are `SIZE` blocks, other keys get none, so they are counted one by one.
    """

    SIZE = 1_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[str, Block] = {}  # in the order in which they were asked for

    def add(self, key: str, events: int, size: int, seconds: float, ask: Callable[[int], int | None]) -> int | None:
        """The count of the key after 0 or 1 more events; None while Redis does not answer.

        Without an unused count in the key's block, `ask` adds to the count in Redis and returns it: `size`, which
        makes a new block, or `events` while another thread asks for one.
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
        """An empty block for the key; None if there are too many. Deletes those of periods that have ended."""
        now = time.monotonic()
        self._blocks.pop(key, None)
        while self._blocks and (oldest := next(iter(self._blocks))) and self._blocks[oldest].ends_at <= now:
            del self._blocks[oldest]
        if len(self._blocks) >= self.SIZE:
            return None
        return self._blocks.setdefault(key, Block(1, 0, now + seconds, is_asked_for=True))
