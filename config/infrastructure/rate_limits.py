"""Rate limits, which django-ratelimit counts in fixed windows. docs/contract.md lists the limits."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from django_ratelimit.core import get_usage
from redis import Redis
from redis.exceptions import RedisError

from config.infrastructure import events as security_events
from config.infrastructure.events import Event
from config.infrastructure.network import site_of

T = TypeVar("T")

logger = logging.getLogger(__name__)

# All keys that one machine invents, such as client ids, together may use this multiple of the rate of one key.
ROTATING = 10
# An IPv6 site (a /48, which contains 65,536 /64s) may use this multiple of the rate of one address.
SITE = 4
# Of these limits, if they are large and short, a process takes a block of 1 % from Redis at once. A limit is never
# exceeded, but may be reached early, because a process that ends loses the rest of its block.
IN_BLOCKS = {"token", "userinfo"}
IN_BLOCKS_FROM_EVENTS, IN_BLOCKS_UP_TO_SECONDS = 600, 60
# While Redis does not answer, each process counts these limits by itself, and no other.
WITHOUT_REDIS = {"sign_in_account", "sign_in_address", "sign_in", "notice", "notice_of_all", "administration", "act"}
WITHOUT_REDIS |= {"records_of_caller", "records_of_kind"}
_own_counts = LocMemCache("rate_limits", {"OPTIONS": {"MAX_ENTRIES": 20_000}})
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
RETRY_AFTER_SECONDS = 1.0


class Rate(NamedTuple):
    events: int
    seconds: int


@functools.lru_cache
def parse(rate: str) -> Rate:
    events, _, period = rate.partition("/")
    return Rate(int(events), int(period[:-1] or 1) * _SECONDS[period[-1]])


class Counter(NamedTuple):
    """The counter of a key, such as a network address, for the limit `name`. `times` multiplies the limit's rate."""

    name: str
    key: str
    times: float = 1


def by_address(name: str, address: str, times: float = 1) -> list[Counter]:
    """Return the counter of a network address. For IPv6, add a counter of the /48 network, with SITE times the rate."""
    counters = [Counter(name, address, times)]
    if site := site_of(address):
        counters.append(Counter(name, site, times * SITE))
    return counters


def count(*counters: Counter) -> int:
    """Add an event to each counter in turn. At the first full counter, return the seconds to wait. Otherwise return 0.

    Pass a client's own counter before shared counters, so that a client beyond its own limit fills no shared counter.
    """
    return next((seconds for each in counters if (seconds := _seconds_to_wait(each, increment=True))), 0)


def exceeded(*counters: Counter) -> int:
    """Return the seconds to wait (at least 1) if a counter is full, otherwise 0. Add nothing to the counters."""
    # The last limit is the widest. While it is full, invented keys make no new counters in memory.
    return next((seconds for each in reversed(counters) if (seconds := _seconds_to_wait(each, increment=False))), 0)


def attempt(*counters: Counter) -> int:
    """Do the same as `count`, but add no event at all if one of the counters is full."""
    return exceeded(*counters) or count(*counters)


def _seconds_to_wait(counter: Counter, *, increment: bool) -> int:
    name, key, times = counter
    rate = settings.RATES.get(name) or settings.RATES_OF_RECORDS.get(name)
    if not rate:  # this limit is off, or RATE_LIMITS is off
        return 0
    cache = cast("RateLimitCache", caches[settings.RATELIMIT_USE_CACHE])
    events, seconds = parse(rate)
    is_in_blocks = name in IN_BLOCKS and times == 1 and events >= IN_BLOCKS_FROM_EVENTS
    cache.block_size = events // 100 if is_in_blocks and seconds <= IN_BLOCKS_UP_TO_SECONDS else 1
    cache.counts_without_redis = name in WITHOUT_REDIS
    usage = get_usage(None, group=name, key=lambda _group, _request: key, rate=(events, seconds), increment=increment)
    if usage is None:  # Redis does not answer; requests are still answered
        return 0
    used = usage["count"] if increment else usage["count"] + 1
    if used <= max(1, int(usage["limit"] * times)):
        return 0
    if name in settings.RATES:
        security_events.write(Event.LIMIT_REACHED, limit=name)
    return max(1, int(usage["time_left"]))


# The caches -----------------------------------------------------------------------------------------------------------


class Outage:  # shared by the threads, which have their own cache objects
    is_on = False
    try_again_at = 0.0  # in monotonic time

    def change(self, error: Exception | None) -> None:
        if error is None:
            logger.warning("Redis answers again.")
        elif not self.is_on:
            logger.error("Redis is away: limits are not counted.", extra={"cause": type(error).__name__})
        self.is_on = error is not None
        self.try_again_at = time.monotonic() + RETRY_AFTER_SECONDS
        security_events.REDIS_AWAY.set(int(self.is_on))


outage = Outage()


class FailOpenRedisCache(RedisCache):
    """Django's Redis cache. Without Redis, `add` returns True, `get` returns `default`, and `delete` returns False."""

    @functools.cached_property
    def client(self) -> Redis:  # used by one thread
        options: Any = settings.CACHES["default"]["OPTIONS"]
        return Redis.from_url(settings.REDIS_URL, single_connection_client=True, **options)

    def call(self, operation: Callable[[], T], fallback: T) -> T:
        if outage.is_on:
            if time.monotonic() < outage.try_again_at:
                return fallback
            outage.try_again_at = time.monotonic() + RETRY_AFTER_SECONDS
        try:
            value = operation()
        except (RedisError, OSError) as error:
            outage.change(error)
            return fallback
        if outage.is_on:
            outage.change(None)
        return value

    def add(self, *args: Any, **options: Any) -> bool:
        return self.call(partial(super().add, *args, **options), True)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self.call(partial(super().get, key, default, version), default)

    def set(self, *args: Any, **options: Any) -> None:
        self.call(partial(super().set, *args, **options), None)

    def delete(self, *args: Any, **options: Any) -> bool:
        return self.call(partial(super().delete, *args, **options), False)


def is_redis_answering() -> bool:
    cache = caches["default"]
    return isinstance(cache, FailOpenRedisCache) and cache.call(lambda: bool(cache.client.ping()), False)


# The next unused number and the last one of each block of counts. The oldest ones are of ended periods.
BLOCKS = 1_000
_blocks: dict[str, tuple[int, int]] = {}
_lock = threading.Lock()


class RateLimitCache(FailOpenRedisCache):
    """django-ratelimit's cache. `add` counts in Redis. `incr` and `get` only return the count of the last `add`."""

    # The caller sets these before each event. `block_size` is the number of counts to take from Redis at once.
    block_size = 1
    counts_without_redis = False
    _count: int | None = None

    def add(self, key: str, value: Any, timeout: Any = None, version: int | None = None) -> bool:
        name = self.make_key(key, version)
        if self.block_size == 1:
            self._count = self._add(name, value, timeout)
        else:
            with _lock:
                self._count = self._add_to_block(name, value, self.block_size, timeout)
        if self._count is None and self.counts_without_redis:
            with _lock:
                self._count = _own_counts.get(name, 0) + value
                if value:
                    _own_counts.set(name, self._count, timeout)
        return False

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> Any:
        return self._count

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._count

    def _add(self, name: str, events: int, seconds: float | None) -> int | None:
        def operation() -> int:
            if events == 0:
                return int(self.client.get(name) or 0)
            count = int(self.client.incrby(name, events))
            if count == events and seconds is not None:
                self.client.expire(name, int(seconds))
            return count

        return self.call(operation, None)

    def _add_to_block(self, name: str, events: int, size: int, seconds: float | None) -> int | None:
        following, last = _blocks.get(name, (1, 0))
        if following > last:
            # Redis may count after this process has stopped waiting, so a block could be lost at each try.
            taken = events if outage.is_on else events * size
            count = self._add(name, taken, seconds)
            if count is None or not events:
                return count
            following, last = count - taken + 1, count
        _blocks[name] = following + events, last
        if len(_blocks) > BLOCKS:
            del _blocks[next(iter(_blocks))]
        return following - 1 + events
