"""Counting against the limits of `settings.RATES` (D21). Fixed windows, shared by all workers through the cache."""

from __future__ import annotations

import functools
import time
import zlib

from django.conf import settings
from django.core.cache import cache
from django_ratelimit.core import get_usage

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def count(name: str, key: str, *, rate: str | None = None) -> int:
    """Add one event to the limit `name` for `key`. Returns 0, or the seconds (at least 1) to wait when it was too many.

    `rate` ("N/period") is for limits that are not settings; `RATE_LIMITS=off` switches them off as well.
    """
    return _seconds_to_wait(name, key, rate, increment=True)


def exceeded(name: str, key: str, *, rate: str | None = None) -> int:
    """Whether one more event would be too many: 0, or the seconds (at least 1) to wait. Counts nothing."""
    return _seconds_to_wait(name, key, rate, increment=False)


def count_request(name: str, key: str) -> int:
    """As `count`, for what every request of a hot path is counted by: one round trip to Redis instead of three.

    It keeps counters of its own, which `exceeded` does not see.
    """
    rate = settings.RATES.get(name)
    in_redis = getattr(cache, "count_in_window", None)
    if rate is None or in_redis is None:
        return count(name, key)
    limit, period = _limit_and_seconds(rate)
    # Windows of different keys end at different times, so that not everybody is let in again at once.
    now = int(time.time())
    elapsed = (now + zlib.crc32(key.encode())) % period
    window = now - elapsed
    return period - elapsed if in_redis(f"limit:{name}:{key}:{window}", period) > limit else 0


def _seconds_to_wait(name: str, key: str, rate: str | None, *, increment: bool) -> int:
    rate = settings.RATES.get(name, rate) if settings.RATES else None
    if rate is None:
        return 0
    usage = get_usage(None, group=name, key=lambda _group, _request: key, rate=rate, increment=increment)
    if usage is None:  # the cache is away: requests go on
        return 0
    is_full = usage["count"] > usage["limit"] if increment else usage["count"] >= usage["limit"]
    return max(1, usage["time_left"]) if is_full else 0


@functools.cache
def _limit_and_seconds(rate: str) -> tuple[int, int]:
    """`10/15m` is 10 in 900 seconds. The settings have seen to it that it is well formed."""
    limit, _, period = rate.partition("/")
    unit = period[-1]
    return int(limit), int(period[:-1] or 1) * SECONDS[unit]
