"""Counting against the limits of `settings.RATES` (D21). Fixed windows, shared by all workers through the cache.

What each limit counts by, whom it can hurt and what they can do is a table in docs/contract.md.
"""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

from django.conf import settings
from django.core.cache import cache
from django_ratelimit.core import get_usage

from config.infrastructure.network import site_of

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Counted in Redis in one round trip: these requests cost little more than that. The others are
# counted by django-ratelimit, with three.
FREQUENT = frozenset({"authorize", "token", "token_failures", "userinfo", "userinfo_failures"})

# How many times its rate a limit allows to what one machine can invent or rotate: client ids, addresses.
ROTATING = 10
# How many times the rate of one address an IPv6 site (/48, 65,536 times a /64) may use.
SITE = 4


class Counter(NamedTuple):
    """A limit and what it counts by. `rate` ("N/period") is for limits that are not settings.

    `times` the rate is allowed, but at least one event.
    """

    name: str
    key: str
    times: float = 1
    rate: str = ""


class _Window(NamedTuple):
    """The counter's name in Redis for the present period, and the seconds that are left of it."""

    key: str
    limit: int
    period: int
    seconds_left: int


def by_address(name: str, address: str, times: float = 1, rate: str = "") -> list[Counter]:
    """The counters of a network address: the address, then, for IPv6, the site it belongs to."""
    counters = [Counter(name, address, times, rate)]
    if site := site_of(address):
        counters.append(Counter(name, site, times * SITE, rate))
    return counters


def count(*counters: Counter) -> int:
    """Add one event to each limit, in turn, until one is full: 0, or the seconds (at least 1) to wait.

    The limits after a full one count nothing. So with the narrowest first, whoever is refused by a limit of their own
    uses up nothing that is shared with others.
    """
    if in_redis := _in_redis(counters, "count_in_windows"):
        return _count_in_redis(in_redis, _windows(counters))
    for counter in counters:
        if seconds := _seconds_to_wait(counter, increment=True):
            return seconds
    return 0


def exceeded(*counters: Counter) -> int:
    """Whether one more event would be too many for a limit: 0, or the seconds (at least 1) to wait. Counts nothing.

    The widest limit, the last, is asked first: while it is full, invented keys make no new counters.
    """
    if in_redis := _in_redis(counters, "counted_in_windows"):
        windows = _windows(counters)
        counted = in_redis([window.key for window in windows]) if windows else []
        full = (each.seconds_left for each, events in zip(windows, counted, strict=True) if events >= each.limit)
        return max(full, default=0)
    for counter in reversed(counters):
        if seconds := _seconds_to_wait(counter, increment=False):
            return seconds
    return 0


def _in_redis(counters: tuple[Counter, ...], operation: str) -> Callable[..., list[int]] | None:
    """The operation of `config.infrastructure.cache.FailOpenRedisCache`; None for what django-ratelimit counts."""
    return getattr(cache, operation, None) if counters[0].name in FREQUENT else None


def _count_in_redis(add: Callable[..., list[int]], windows: list[_Window]) -> int:
    """One round trip; a second one, when a limit is full, takes the event back from the limits after it."""
    counted = add([(each.key, each.period) for each in windows]) if windows else []
    for place, (window, events) in enumerate(zip(windows, counted, strict=True), start=1):
        if events > window.limit:
            if wider := windows[place:]:
                add([(each.key, each.period) for each in wider], events=-1)
            return window.seconds_left
    return 0


def _windows(counters: tuple[Counter, ...]) -> list[_Window]:
    now = int(time.time())
    windows = []
    for counter in counters:
        if rate := _rate(counter):
            limit, period = rate
            # Windows of different keys end at different times, so that not everybody is let in again at once.
            elapsed = (now + zlib.crc32(counter.key.encode())) % period
            key = f"limit:{counter.name}:{counter.key}:{now - elapsed}"
            windows.append(_Window(key, limit, period, period - elapsed))
    return windows


def _seconds_to_wait(counter: Counter, *, increment: bool) -> int:
    rate = _rate(counter)
    if rate is None:
        return 0
    limit, period = rate
    usage = get_usage(
        None,
        group=counter.name,
        key=lambda _group, _request: counter.key,
        rate=f"{limit}/{period}s",
        increment=increment,
    )
    if usage is None:  # the cache is away: requests go on
        return 0
    is_full = usage["count"] > limit if increment else usage["count"] >= limit
    return max(1, usage["time_left"]) if is_full else 0


def _rate(counter: Counter) -> tuple[int, int] | None:
    """So many events in so many seconds; None while the limit, or `RATE_LIMITS`, is off."""
    rate = settings.RATES and (counter.rate or settings.RATES.get(counter.name))
    if not rate:
        return None
    limit, period = _limit_and_seconds(rate)
    return max(1, int(limit * counter.times)), period


@functools.cache
def _limit_and_seconds(rate: str) -> tuple[int, int]:
    """`10/15m` is 10 in 900 seconds. The settings have seen to it that it is well formed."""
    limit, _, period = rate.partition("/")
    unit = period[-1]
    return int(limit), int(period[:-1] or 1) * SECONDS[unit]
