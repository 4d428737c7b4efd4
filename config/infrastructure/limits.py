"""Counting against the limits of `settings.RATES` (D21). Fixed windows, shared by all workers through the cache.

django-ratelimit reads the rates, divides time into windows and counts. What each limit counts by, whom it can hurt and
what they can do is a table in docs/contract.md.
"""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings
from django_ratelimit.core import get_usage

from config.infrastructure.network import site_of

# How many times its rate a limit allows for all keys that one machine can invent or rotate: client ids, addresses.
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


def by_address(name: str, address: str, times: float = 1, rate: str = "") -> list[Counter]:
    """The counters of a network address: the address, then, for IPv6, the site it belongs to."""
    counters = [Counter(name, address, times, rate)]
    if site := site_of(address):
        counters.append(Counter(name, site, times * SITE, rate))
    return counters


def count(*counters: Counter) -> int:
    """Add one event to each limit, in turn, until one is full: 0, or the seconds (at least 1) to wait.

    The limits after a full one count nothing. So with the narrowest first, a client that its own limit refuses uses up
    nothing that it shares with others.
    """
    for counter in counters:
        if seconds := _seconds_to_wait(counter, increment=True):
            return seconds
    return 0


def exceeded(*counters: Counter) -> int:
    """Whether one more event would be too many for a limit: 0, or the seconds (at least 1) to wait. Counts nothing.

    The widest limit, the last, is asked first: while it is full, invented keys make no new counters, because without
    Redis even a look makes one. So a narrower limit that is full for longer may refuse the next try once more.
    """
    for counter in reversed(counters):
        if seconds := _seconds_to_wait(counter, increment=False):
            return seconds
    return 0


def attempt(*counters: Counter) -> int:
    """Add one event to each limit unless one of them is full: 0, or the seconds (at least 1) to wait.

    Unlike `count`, an event that the widest limit refuses makes no counter for its narrower ones.
    """
    return exceeded(*counters) or count(*counters)


def _seconds_to_wait(counter: Counter, *, increment: bool) -> int:
    rate = settings.RATES and (counter.rate or settings.RATES.get(counter.name))
    if not rate:  # the limit, or RATE_LIMITS, is off
        return 0
    usage = get_usage(
        None, group=counter.name, key=lambda _group, _request: counter.key, rate=rate, increment=increment
    )
    if usage is None:  # the cache is away: requests go on
        return 0
    allowed = max(1, int(usage["limit"] * counter.times))
    events = usage["count"] if increment else usage["count"] + 1
    return max(1, usage["time_left"]) if events > allowed else 0
