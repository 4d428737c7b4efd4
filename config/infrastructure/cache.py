"""A Redis cache whose absence never fails a request (D21)."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1.0
LOG_EVERY_SECONDS = 10.0
SOCKET_TIMEOUT_SECONDS = 0.25


class Breaker:
    """Lets one caller a second try Redis while it is away, so that a silent Redis costs one time-out a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_away = False
        self._try_again_at = 0.0
        self._log_again_at = 0.0

    def may_try(self) -> bool:
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
            is_loud = now >= self._log_again_at
            if is_loud:
                self._log_again_at = now + LOG_EVERY_SECONDS
        if is_loud:
            logger.error("Redis is away: limits are not counted.", extra={"cause": type(error).__name__})

    def succeeded(self) -> None:
        if self._is_away:
            self._is_away = False
            logger.warning("Redis answers again.")


# One for each server and process: Django makes a cache object for each thread, and they should learn from each other.
_breakers: dict[str, Breaker] = {}


class FailOpenRedisCache(RedisCache):
    """Django's Redis cache; while Redis is away, `add` says yes, reads find nothing and counters stand still."""

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        options = {
            "socket_timeout": SOCKET_TIMEOUT_SECONDS,
            "socket_connect_timeout": SOCKET_TIMEOUT_SECONDS,
            # A connection that Redis closed while it idled is opened again once; a time-out is never waited for twice.
            "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
            **params.get("OPTIONS", {}),
        }
        super().__init__(server, {**params, "OPTIONS": options})
        self.breaker = _breakers.setdefault(str(server), Breaker())

    def _or(self, fallback: T, call: Callable[[], T]) -> T:
        if not self.breaker.may_try():
            return fallback
        try:
            value = call()
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return fallback
        self.breaker.succeeded()
        return value

    def add(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._or(True, lambda: RedisCache.add(self, key, value, timeout, version))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._or(default, lambda: RedisCache.get(self, key, default, version))

    def set(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._or(None, lambda: RedisCache.set(self, key, value, timeout, version))

    def touch(self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._or(False, lambda: RedisCache.touch(self, key, timeout, version))

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._or(False, lambda: RedisCache.delete(self, key, version))

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        return self._or({}, lambda: RedisCache.get_many(self, list(keys), version))

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self._or(False, lambda: RedisCache.has_key(self, key, version))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._or(delta, lambda: RedisCache.incr(self, key, delta, version))

    def set_many(
        self, data: Mapping[str, Any], timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        return self._or(list(data), lambda: RedisCache.set_many(self, dict(data), timeout, version))

    def delete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        self._or(None, lambda: RedisCache.delete_many(self, list(keys), version))

    def clear(self) -> None:
        self._or(None, lambda: RedisCache.clear(self))

    def is_answering(self) -> bool:
        client: RedisCacheClient = self._cache  # type: ignore[attr-defined]
        return self._or(False, lambda: bool(client.get_client().ping()))


class RateLimitCache(FailOpenRedisCache):
    """The cache in which django-ratelimit counts: one round trip for an event instead of three.

    django-ratelimit calls `add`, then `incr` or `get` when `add` returns False. Here `add` counts, and the other two
    return what it found; each thread has its own instance.
    """

    _count = 0

    def add(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Count `value` more events, none when it is 0. True while Redis is away: the caller takes `value` as count."""
        count = self._or(None, lambda: self._counted(self.make_key(key, version), value, timeout))
        self._count = count or 0
        return count is None

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self._count

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._count

    def _counted(self, key: str, events: int, seconds: float | None) -> int | None:
        if events == 0:
            return int(self._client.get(key) or 0)
        count = int(self._client.incr(key, events))
        # A process killed between the two leaves a counter of 150 bytes for good, of a period that never comes again.
        if count == events and seconds is not None:
            self._client.expire(key, int(seconds))
        return count

    @functools.cached_property
    def _client(self) -> Redis:
        """A client with a connection of its own: making one, or asking the pool, takes as long as the round trip."""
        client: RedisCacheClient = self._cache  # type: ignore[attr-defined]
        pool = client.get_client(None, write=True).connection_pool
        return Redis(connection_pool=pool, single_connection_client=True)


def is_redis_answering() -> bool:
    """Whether the default cache is Redis and it answers now."""
    redis = caches["default"]
    return isinstance(redis, FailOpenRedisCache) and redis.is_answering()
