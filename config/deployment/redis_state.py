"""The checks of Redis for `manage.py check-deployment`."""

from __future__ import annotations

import secrets
import time
from typing import Any

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from config.deployment.findings import WAIT_SECONDS, Finding, failed, of_clock, ok, skipped, warning

OLDEST = 6
FULL_SHARE = 0.8


def findings() -> list[Finding]:
    if not settings.REDIS_URL:
        return [skipped("redis", "REDIS_URL is not set; one worker counts the limits in its memory.")]
    client = Redis.from_url(settings.REDIS_URL, socket_timeout=WAIT_SECONDS, socket_connect_timeout=WAIT_SECONDS)
    try:
        return _of(client)
    except (RedisError, OSError) as error:
        message = f"Redis can't be used ({type(error).__name__}): no limit is counted in it."
        return [failed("redis", message, "Is REDIS_URL right, does Redis run there, and may this account write?")]
    finally:
        client.close()


def _of(client: Redis) -> list[Finding]:
    before = time.time()
    seconds, microseconds = client.time()
    now = (before + time.time()) / 2
    key = f"check-deployment:{secrets.token_hex(8)}"
    client.set(key, 1, ex=WAIT_SECONDS)  # this write fails on a replica, with full memory, or without the permission
    client.delete(key)
    info: dict[str, Any] = client.info()
    return [_version(info), _memory(info), of_clock("clock_redis", "Redis", seconds + microseconds / 1e6 - now)]


def _version(info: dict[str, Any]) -> Finding:
    version = str(info.get("redis_version", "?"))
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < OLDEST:
        message = f"Redis {version} gets no security corrections any more."
        return warning("redis", message, f"Use Redis {OLDEST} or newer, or Valkey.")
    return ok("redis", f"Redis {version} answers and can be written.")


def _memory(info: dict[str, Any]) -> Finding:
    """Check that Redis has free memory and evicts no keys, because the keys are the counters of the limits."""
    limit, policy = int(info.get("maxmemory", 0)), str(info.get("maxmemory_policy", "noeviction"))
    if limit and policy != "noeviction":
        message = f"A full Redis deletes keys ({policy}), and the limits that they count begin anew."
        return warning("redis_memory", message, "Set maxmemory-policy noeviction, or let nothing else use this Redis.")
    if limit and int(info.get("used_memory", 0)) > FULL_SHARE * limit:
        message = f"More than {FULL_SHARE:.0%} of Redis's memory is used; a full Redis counts no limits."
        return warning("redis_memory", message, "Raise maxmemory, or let nothing else use this Redis.")
    return ok("redis_memory", "Redis deletes no counter before its time.")
