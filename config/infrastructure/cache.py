"""The Redis cache. While Redis does not answer, requests are answered without it (D21)."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

from config.infrastructure import metrics
from config.infrastructure.count_blocks import Blocks

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1.0
LOG_EVERY_SECONDS = 10.0
SOCKET_TIMEOUT_SECONDS = 0.25


class Breaker:
    """A circuit breaker: while it is open, one call per second tries Redis, and all others fail at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_open = False
        self._try_again_at = 0.0
        self._log_again_at = 0.0

    def allows_call(self) -> bool:
        """Return whether this call may try Redis."""
        if not self.is_open:
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
            self.is_open = True
            self._try_again_at = now + RETRY_AFTER_SECONDS
            metrics.REDIS_AWAY.set(1)
            must_log = now >= self._log_again_at
            if must_log:
                self._log_again_at = now + LOG_EVERY_SECONDS
        if must_log:
            logger.error("Redis is away: limits are not counted.", extra={"cause": type(error).__name__})

    def succeeded(self) -> None:
        if self.is_open:
            self.is_open = False
            metrics.REDIS_AWAY.set(0)
            logger.warning("Redis answers again.")


# One breaker for each Redis URL. The breakers are stored here because each thread has its own cache object.
_breakers: dict[str, Breaker] = {}


class FailOpenRedisCache(RedisCache):
    """Django's Redis cache.

    While Redis does not answer, reads find nothing, `add` returns True, and `incr` returns its `delta`.
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
        self.breaker = _breakers.setdefault(self.url, Breaker())

    @functools.cached_property
    def client(self) -> Redis:
        """A client with one connection. Only one thread uses it, because Django makes a cache object for each thread.

        Raises RedisError: Redis does not answer.
        """
        return Redis.from_url(self.url, single_connection_client=True, **self.options)

    def _call(self, operation: Callable[[], T], fallback: T) -> T:
        """Return the result of the operation, or the fallback while Redis does not answer."""
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


# One object for each Redis URL, which all threads share.
_blocks: dict[str, Blocks] = {}


class RateLimitCache(FailOpenRedisCache):
    """The cache in which django-ratelimit counts. An event takes at most one round trip to Redis instead of three.

    django-ratelimit calls `add` and, if `add` returns False, `incr` or `get`. Here `add` counts, keeps the count in the
    instance and returns False; `incr` and `get` return the kept count. While Redis does not answer, `incr` and `get`
    return None, so `get_usage` returns None. Each thread has its own instance.

    The caller may set `block_size` for the next event. If `block_size` is above 1, this process takes that many counts
    from Redis at once.
    """

    block_size = 1
    _last_count: int | None = None

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self.blocks = _blocks.setdefault(self.url, Blocks())

    def add(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Count `value` more events. If `value` is 0, only read the count."""
        name, size, self.block_size = self.make_key(key, version), self.block_size, 1

        def ask(events: int) -> int | None:
            return self._call(lambda: self._add_events(name, events, timeout), None)

        # While Redis does not answer, request no block: a block that arrives after the time-out would be lost.
        if size > 1 and timeout is not None and not self.breaker.is_open:
            self._last_count = self.blocks.add(name, value, size, timeout, ask)
        else:
            self._last_count = ask(value)
        return False

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> Any:
        return self._last_count

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._last_count

    def _add_events(self, key: str, events: int, seconds: float | None) -> int:
        if events == 0:
            return int(self.client.get(key) or 0)
        count = int(self.client.incrby(key, events))
        # If the process is killed between INCR and EXPIRE, the key stays in Redis (150 bytes). No later period uses the
        # key.
        if count == events and seconds is not None:
            self.client.expire(key, int(seconds))
        return count


def is_redis_answering() -> bool:
    """Return whether the default cache is Redis and answers now."""
    cache = caches["default"]
    return isinstance(cache, FailOpenRedisCache) and cache.is_answering()
