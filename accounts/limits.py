"""Counting against the limits of `settings.RATES` (D21). Fixed windows, shared by all workers through the cache."""

from __future__ import annotations

from django.conf import settings
from django_ratelimit.core import get_usage


def count(name: str, key: str, *, rate: str | None = None) -> int:
    """Add one event to the limit `name` for `key`. Returns 0, or the seconds (at least 1) to wait when it was too many.

    `rate` ("N/period") is for limits that are not settings; `RATE_LIMITS=off` switches them off as well.
    """
    return _seconds_to_wait(name, key, rate, increment=True)


def exceeded(name: str, key: str, *, rate: str | None = None) -> int:
    """Whether one more event would be too many: 0, or the seconds (at least 1) to wait. Counts nothing."""
    return _seconds_to_wait(name, key, rate, increment=False)


def _seconds_to_wait(name: str, key: str, rate: str | None, *, increment: bool) -> int:
    rate = settings.RATES.get(name, rate) if settings.RATES else None
    if rate is None:
        return 0
    usage = get_usage(None, group=name, key=lambda _group, _request: key, rate=rate, increment=increment)
    if usage is None:  # the cache is away: requests go on
        return 0
    is_full = usage["count"] > usage["limit"] if increment else usage["count"] >= usage["limit"]
    return max(1, usage["time_left"]) if is_full else 0
