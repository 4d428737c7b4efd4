"""The Redis cache. While Redis does not answer, requests are answered without it (D21)."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

from config.infrastructure import metrics

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS, LOG_EVERY_SECONDS, SOCKET_TIMEOUT_SECONDS = 1.0, 10.0, 0.25


class Outage:
    """Whether a Redis is away. The threads share it, but each thread has its own cache object."""

    is_on = False
    try_again_at = log_again_at = 0.0  # in monotonic time

    def change(self, error: Exception | None) -> None:
        now, self.is_on = time.monotonic(), error is not None
        self.try_again_at = now + RETRY_AFTER_SECONDS
        metrics.REDIS_AWAY.set(int(self.is_on))
        if error is None:
            logger.warning("Redis answers again.")
        elif now >= self.log_again_at:
            self.log_again_at = now + LOG_EVERY_SECONDS
            logger.error("Redis is away: limits are not counted.", extra={"cause": type(error).__name__})


_outages: dict[str, Outage] = {}  # by the URL of Redis


class FailOpenRedisCache(RedisCache):
    """Django's Redis cache. While Redis does not answer, `get` finds nothing and `add` returns True.

    One call per second then tries Redis, and the others do not wait for it. Further methods raise RedisError.
    """

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        self.options = {
            "socket_timeout": SOCKET_TIMEOUT_SECONDS,
            "socket_connect_timeout": SOCKET_TIMEOUT_SECONDS,
            # Repeat a call once, because Redis may have closed an idle connection. After a time-out, do not repeat it.
            "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        }
        super().__init__(server, {**params, "OPTIONS": self.options})
        self.url = server if isinstance(server, str) else server[0]
        self.outage = _outages.setdefault(self.url, Outage())

    @functools.cached_property
    def client(self) -> Redis:
        """A client with one connection. Only one thread uses it."""
        return Redis.from_url(self.url, single_connection_client=True, **self.options)

    def call(self, operation: Callable[[], T], fallback: T) -> T:
        """Return the result of the operation, or the fallback while Redis does not answer."""
        if self.outage.is_on:
            if time.monotonic() < self.outage.try_again_at:
                return fallback
            self.outage.try_again_at = time.monotonic() + RETRY_AFTER_SECONDS
        try:
            value = operation()
        except (RedisError, OSError) as error:
            self.outage.change(error)
            return fallback
        if self.outage.is_on:
            self.outage.change(None)
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
    """Return whether the default cache is Redis and answers now."""
    cache = caches["default"]
    return isinstance(cache, FailOpenRedisCache) and cache.call(lambda: bool(cache.client.ping()), False)


# For a large limit, this process takes several counts from Redis at once. For the name of such a count, `_blocks` has
# the next unused number and the last one. The names of ended periods are the oldest; there are at most BLOCKS.
BLOCKS = 1_000
_blocks: dict[str, tuple[int, int]] = {}
_lock = threading.Lock()


class RateLimitCache(FailOpenRedisCache):
    """The cache in which django-ratelimit counts. An event takes at most one round trip to Redis instead of three.

    django-ratelimit calls `add` and, if `add` returns False, `incr` or `get`. Here `add` counts, keeps the count in the
    instance and returns False; `incr` and `get` return the kept count, or None while Redis does not answer. The caller
    may set `block_size`, the number of counts to take from Redis at once, before each event.
    """

    block_size = 1
    _count: int | None = None

    def add(self, key: str, value: Any, timeout: Any = None, version: int | None = None) -> bool:
        """Count `value` (0 or 1) more events."""
        name, size, self.block_size = self.make_key(key, version), self.block_size, 1
        if size == 1:
            self._count = self._add(name, value, timeout)
        else:
            with _lock:
                self._count = self._add_to_block(name, value, size, timeout)
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
            taken = events if self.outage.is_on else events * size
            count = self._add(name, taken, seconds)
            if count is None or not events:
                return count
            following, last = count - taken + 1, count
        _blocks[name] = following + events, last
        if len(_blocks) > BLOCKS:
            del _blocks[next(iter(_blocks))]
        return following - 1 + events
