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
from django.core.cache.backends.locmem import LocMemCache
from django_ratelimit.core import get_usage

from config.infrastructure import events as security_events
from config.infrastructure.events import Event
from config.infrastructure.network import site_of

# One machine can invent many keys, such as client ids. All keys of one machine together may use this multiple of the
# rate of one key.
ROTATING = 10
# An IPv6 site (a /48, which contains 65,536 /64s) may use this multiple of the rate of one address.
SITE = 4
# For these limits, a process takes 1 % of the counts from Redis at once, if the limit is at least IN_BLOCKS_FROM_EVENTS
# in a period of at most IN_BLOCKS_UP_TO_SECONDS. The limit is then never exceeded, but may be reached early, by less
# than 1 % for each process. A process that ends loses the rest, and in a longer period many processes may end.
IN_BLOCKS = frozenset({"token", "userinfo"})
IN_BLOCKS_FROM_EVENTS, IN_BLOCKS_UP_TO_SECONDS = 600, 60
# While Redis does not answer, each process counts these limits by itself, and no other.
WITHOUT_REDIS = frozenset(
    {"sign_in_account", "sign_in_address", "sign_in", "notice", "notice_of_all", "administration", "act"}
    | {"records_of_caller", "records_of_kind"}
)
_own_lock = threading.Lock()
_own_counts = LocMemCache("rate_limits", {"OPTIONS": {"MAX_ENTRIES": 20_000}})
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
    """The name of a limit in `settings.RATES` or `settings.RATES_OF_RECORDS`, and the key of a count.

    The limit is the rate multiplied by `times`, but at least one event.
    """

    name: str
    key: str
    times: float = 1


def by_address(name: str, address: str, times: float = 1) -> list[Counter]:
    """Return the counter of a network address and, for IPv6, the counter of its site."""
    counters = [Counter(name, address, times)]
    if site := site_of(address):
        counters.append(Counter(name, site, times * SITE))
    return counters


def count(*counters: Counter) -> int:
    """Add one event to each limit until a limit is full. Return 0, or the seconds (at least 1) to wait.

    The limits after a full limit count nothing. Pass the narrowest limit first: if a client's own limit is full, the
    client does not use up a limit that it shares with others.
    """
    return next((seconds for each in counters if (seconds := _seconds_to_wait(each, increment=True))), 0)


def exceeded(*counters: Counter) -> int:
    """Return 0, or the seconds (at least 1) to wait if a limit is full. Count nothing.

    Pass the narrowest limit first, as to `count`. The widest limit is checked first. While this limit is full, the
    other limits are not checked, so invented keys make no new counters. Without Redis, even a check makes a counter. A
    narrower limit may be full for longer, so the next attempt may also be refused.
    """
    return next((seconds for each in reversed(counters) if (seconds := _seconds_to_wait(each, increment=False))), 0)


def attempt(*counters: Counter) -> int:
    """Add one event to each limit unless a limit is full. Return 0, or the seconds (at least 1) to wait.

    Unlike with `count`, an event that the widest limit refuses makes no counter of a narrower limit.
    """
    return exceeded(*counters) or count(*counters)


def _seconds_to_wait(counter: Counter, *, increment: bool) -> int:
    name, key, times = counter
    rate = settings.RATES.get(name) or settings.RATES_OF_RECORDS.get(name)
    if not rate:  # this limit is off, or RATE_LIMITS is off
        return 0
    if name in IN_BLOCKS and times == 1:
        caches[settings.RATELIMIT_USE_CACHE].block_size = _block_size(rate)  # type: ignore[attr-defined]
    usage = get_usage(None, group=name, key=lambda _group, _request: key, rate=rate, increment=increment)
    if usage is None:  # the cache does not answer; requests are still answered
        if name not in WITHOUT_REDIS:
            return 0
        usage = _own_usage(name, key, parse(rate), increment=increment)
    used = usage["count"] if increment else usage["count"] + 1
    if used <= max(1, int(usage["limit"] * times)):
        return 0
    if name in settings.RATES:
        security_events.write(Event.LIMIT_REACHED, limit=name)
    return max(1, int(usage["time_left"]))


def _block_size(rate: str) -> int:
    events, seconds = parse(rate)
    return events // 100 if events >= IN_BLOCKS_FROM_EVENTS and seconds <= IN_BLOCKS_UP_TO_SECONDS else 1


def _own_usage(name: str, key: str, rate: Rate, *, increment: bool) -> dict[str, Any]:
    """Count in the memory of this process, and return a dict like that of django-ratelimit's `get_usage`."""
    window, passed = divmod(int(time.time()), rate.seconds)
    place = str(hash((name, key, window)))
    with _own_lock:
        used = _own_counts.get(place, 0) + int(increment)
        if increment:
            _own_counts.set(place, used, rate.seconds)
    return {"limit": rate.events, "count": used, "time_left": rate.seconds - passed}
