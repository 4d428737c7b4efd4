"""The Redis cache. While Redis does not answer, requests go on without it (D21)."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1.0
LOG_EVERY_SECONDS = 10.0
SOCKET_TIMEOUT_SECONDS = 0.25


# A script takes one round trip, as a pipeline of redis-py does, but less time in this process.
INCREMENT_AND_EXPIRE = """
local counts = {}
for i, key in ipairs(KEYS) do
  counts[i] = redis.call('INCRBY', key, ARGV[1])
  redis.call('EXPIRE', key, ARGV[i + 1])
end
return counts
"""


class Breaker:
    """Circuit breaker: while Redis does not answer, one call a second tries it, and the others fail at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_away = False
        self._try_again_at = 0.0
        self._log_again_at = 0.0

    def allows_call(self) -> bool:
        """Whether this call may try Redis."""
        if not self._is_away:
            return True
        with self._lock:
            now = time.monotonic()
            if now < self._try_again_at:
                return False
            self._try_again_at = now + RETRY_AFTER_SECONDS
            return True

    def failed(self, error: Exception) -> None:
        with self._lock:
            now = time.monotonic()
            self._is_away = True
            self._try_again_at = now + RETRY_AFTER_SECONDS
            must_log = now >= self._log_again_at
            if must_log:
                self._log_again_at = now + LOG_EVERY_SECONDS
        if must_log:
            logger.error("Redis is away: limits are not counted.", extra={"cause": type(error).__name__})

    def succeeded(self) -> None:
        if self._is_away:
            self._is_away = False
            logger.warning("Redis answers again.")


# One for each server and process. Django makes a cache object for each thread, so threads share it.
_breakers: dict[str, Breaker] = {}


class FailOpenRedisCache(RedisCache):
    """Django's Redis cache. While Redis does not answer, `add` returns True, reads find nothing, counters stay at 0."""

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        self.options = {
            "socket_timeout": SOCKET_TIMEOUT_SECONDS,
            "socket_connect_timeout": SOCKET_TIMEOUT_SECONDS,
            # Reconnect once, as Redis closes idle connections. A time-out is not retried.
            "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        }
        super().__init__(server, {**params, "OPTIONS": self.options})
        self.url = server if isinstance(server, str) else server[0]
        self.breaker = _breakers.setdefault(self.url, Breaker())

    @functools.cached_property
    def client(self) -> Redis:
        """A client with its own connection. Django makes a cache object for each thread, so no other thread uses it.

        Raises RedisError: Redis does not answer.
        """
        return Redis.from_url(self.url, single_connection_client=True, **self.options)

    @functools.cached_property
    def _increment_and_expire(self) -> Any:
        return self.client.register_script(INCREMENT_AND_EXPIRE)

    def _call(self, operation: Callable[[], T], fallback: T) -> T:
        """The result of the operation; the fallback while Redis does not answer."""
        if not self.breaker.allows_call():
            return fallback
        try:
            value = operation()
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return fallback
        self.breaker.succeeded()
        return value

    def add(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._call(lambda: RedisCache.add(self, key, value, timeout, version), True)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._call(lambda: RedisCache.get(self, key, default, version), default)

    def set(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._call(lambda: RedisCache.set(self, key, value, timeout, version), None)

    def touch(self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._call(lambda: RedisCache.touch(self, key, timeout, version), False)

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._call(lambda: RedisCache.delete(self, key, version), False)

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        return self._call(lambda: RedisCache.get_many(self, list(keys), version), {})

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self._call(lambda: RedisCache.has_key(self, key, version), False)

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._call(lambda: RedisCache.incr(self, key, delta, version), delta)

    def count_in_windows(self, windows: Sequence[tuple[str, int]], events: int = 1) -> list[int]:
        """Add events to the counter of each (key, seconds) and return the new counts, 0 each while Redis is away.

        A counter expires the given seconds after its last event. One round trip; `add` and `incr` of Django's cache
        take three for each key.
        """
        keys, seconds = [key for key, _ in windows], [seconds for _, seconds in windows]
        return self._call(lambda: list(self._increment_and_expire(keys, [events, *seconds])), [0] * len(keys))

    def counted_in_windows(self, keys: Sequence[str]) -> list[int]:
        """The count of each key, 0 each while Redis is away. One round trip."""
        counts: Sequence[Any] = self._call(lambda: self.client.mget(keys), [0] * len(keys))
        return [int(count or 0) for count in counts]

    def set_many(
        self, data: Mapping[str, Any], timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        return self._call(lambda: RedisCache.set_many(self, dict(data), timeout, version), list(data))

    def delete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        self._call(lambda: RedisCache.delete_many(self, list(keys), version), None)

    def clear(self) -> None:
        self._call(lambda: RedisCache.clear(self), None)

    def is_answering(self) -> bool:
        return self._call(lambda: bool(self.client.ping()), False)


def is_redis_answering() -> bool:
    """Whether the default cache is Redis and answers now."""
    cache = caches["default"]
    return isinstance(cache, FailOpenRedisCache) and cache.is_answering()
