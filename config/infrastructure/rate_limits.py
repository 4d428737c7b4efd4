"""Count events against the limits in `settings.RATES` (D21), in fixed windows that all workers share in the cache.

django-ratelimit reads the rates, divides time into windows and counts. For each limit, the table in docs/contract.md
says what the limit counts, whom it affects, and what the affected people can do.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, NamedTuple

from django.conf import settings
from django.core.cache import caches
from django_ratelimit.core import get_usage

from config.infrastructure import events as security_events
from config.infrastructure.cache import RateLimitCache
from config.infrastructure.events import Event
from config.infrastructure.network import site_of

# One machine can invent many keys, such as client ids. All keys of one machine together may use this multiple of the
# rate of one key.
ROTATING = 10
# An IPv6 site (a /48, which contains 65,536 /64s) may use this multiple of the rate of one address.
SITE = 4
# Limits of at least this many events in at most this many seconds may be counted in blocks. A process that ends loses
# the rest of its block, and in a longer period many processes may end.
IN_BLOCKS_FROM_EVENTS, IN_BLOCKS_UP_TO_SECONDS = 600, 60
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Rate(NamedTuple):
    """A number of events in a number of seconds."""

    events: int
    seconds: int


@functools.lru_cache
def parse(rate: str) -> Rate:
    """Return the rate of a text such as "600/m" or "10/15m", which `config.environment` has checked."""
    events, _, period = rate.partition("/")
    return Rate(int(events), int(period[:-1] or 1) * _SECONDS[period[-1]])


class Counter(NamedTuple):
    """A limit and the key of its count. `rate` ("N/period") is only for a limit that is not a setting.

    The limit is the rate multiplied by `times`, but at least one event. While the cache does not answer, each process
    counts by itself if `has_floor` is True; otherwise nothing is counted. If `in_blocks` is True, each process takes
    1 % of a large limit from Redis at once. The limit is then never exceeded, but may be reached early, by less than
    1 % for each process.
    """

    name: str
    key: str
    times: float = 1
    rate: str = ""
    has_floor: bool = False
    in_blocks: bool = False


class Floor:
    """Counts in the memory of this process. If there are more than `SIZE` windows, the oldest is removed."""

    SIZE = 20_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}  # the end in Unix time, and the events so far

    def usage(self, counter: Counter, rate: Rate, *, increment: bool) -> dict[str, Any]:
        """Count, and return a dict like that of django-ratelimit's `get_usage`."""
        now, key = time.time(), (counter.name, counter.key)
        with self._lock:
            end, count = self._windows.get(key, (0.0, 0))
            if end <= now:
                self._windows.pop(key, None)
                end, count = now + rate.seconds, 0
            if increment:
                count += 1
                self._windows[key] = end, count
            if len(self._windows) > self.SIZE:
                del self._windows[next(iter(self._windows))]
        return {"limit": rate.events, "count": count, "time_left": int(end - now)}


_floor = Floor()


def by_address(name: str, address: str, times: float = 1, rate: str = "") -> list[Counter]:
    """Return the counter of a network address and, for IPv6, the counter of its site."""
    counters = [Counter(name, address, times, rate)]
    if site := site_of(address):
        counters.append(Counter(name, site, times * SITE, rate))
    return counters


def count(*counters: Counter) -> int:
    """Add one event to each limit until a limit is full. Return 0, or the seconds (at least 1) to wait.

    The limits after a full limit count nothing. Pass the narrowest limit first: if a client's own limit is full, the
    client does not use up a limit that it shares with others.
    """
    for counter in counters:
        if seconds := _seconds_to_wait(counter, increment=True):
            return seconds
    return 0


def exceeded(*counters: Counter) -> int:
    """Return 0, or the seconds (at least 1) to wait if a limit is full. Count nothing.

    Pass the narrowest limit first, as to `count`. The widest limit is checked first. While this limit is full, the
    other limits are not checked, so invented keys make no new counters. Without Redis, even a check makes a counter. A
    narrower limit may be full for longer, so the next attempt may also be refused.
    """
    for counter in reversed(counters):
        if seconds := _seconds_to_wait(counter, increment=False):
            return seconds
    return 0


def attempt(*counters: Counter) -> int:
    """Add one event to each limit unless a limit is full. Return 0, or the seconds (at least 1) to wait.

    Unlike with `count`, an event that the widest limit refuses makes no counter of a narrower limit.
    """
    return exceeded(*counters) or count(*counters)


def _block_size(rate: str) -> int:
    events, seconds = parse(rate)
    return events // 100 if events >= IN_BLOCKS_FROM_EVENTS and seconds <= IN_BLOCKS_UP_TO_SECONDS else 1


def _seconds_to_wait(counter: Counter, *, increment: bool) -> int:
    rate = settings.RATES and (counter.rate or settings.RATES.get(counter.name))
    if not rate:  # this limit is off, or RATE_LIMITS is off
        return 0
    if counter.in_blocks and isinstance(cache := caches[settings.RATELIMIT_USE_CACHE], RateLimitCache):
        cache.block_size = _block_size(rate)
    usage = get_usage(
        None, group=counter.name, key=lambda _group, _request: counter.key, rate=rate, increment=increment
    )
    if usage is None:  # the cache does not answer; requests are still answered
        if not counter.has_floor:
            return 0
        usage = _floor.usage(counter, parse(rate), increment=increment)
    allowed = max(1, int(usage["limit"] * counter.times))
    events = usage["count"] if increment else usage["count"] + 1
    if events <= allowed:
        return 0
    security_events.write(Event.LIMIT_REACHED, limit=counter.name)
    return max(1, int(usage["time_left"]))
