"""Counting against limits, the same in Redis and in memory. Under load: faults/test_under_load.py. D21."""

import socket
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.conf import settings as configured
from django.core.cache import cache, caches
from django_ratelimit.core import EXPIRATION_FUDGE
from redis import Connection

from config.infrastructure import rate_limits
from config.infrastructure.rate_limits import Counter, FailOpenRedisCache, Outage

pytestmark = pytest.mark.integration
needs_redis = pytest.mark.skipif(not configured.REDIS_URL, reason="needs Redis: set REDIS_URL to one")


@pytest.mark.parametrize(("rate", "seconds"), [("3/m", 60), ("1/s", 1), ("2/2h", 7200), ("1/d", 86400)])
def test_a_rate_is_a_number_in_so_many_seconds(settings, time_machine, rate, seconds):
    settings.RATES = {"userinfo": rate}
    time_machine.move_to(datetime(2026, 11, 21, 12, tzinfo=UTC), tick=False)
    assert not any(rate_limits.count(Counter("userinfo", "alice")) for _ in range(int(rate[0])))
    wait = rate_limits.count(Counter("userinfo", "alice"))
    assert 1 <= wait <= seconds
    assert rate_limits.count(Counter("userinfo", "bob")) == 0
    time_machine.shift(wait + 1)
    assert rate_limits.count(Counter("userinfo", "alice")) == 0


def test_while_the_cache_is_away_only_some_limits_are_counted_in_the_process(settings, redis_away, time_machine):
    settings.RATES = {"userinfo": "1/m", "sign_in_account": "2/15m"}
    time_machine.move_to(datetime(2026, 11, 21, 12, tzinfo=UTC), tick=False)
    assert not any(rate_limits.count(Counter("userinfo", "alice")) for _ in range(5))
    assert rate_limits.exceeded(Counter("userinfo", "alice")) == 0
    alice, wide = (Counter("sign_in_account", key, times) for key, times in (("alice", 1), ("all", 2)))
    assert [rate_limits.attempt(alice, wide) > 0 for _ in range(4)] == [False, False, True, True]
    assert rate_limits.exceeded(Counter("sign_in_account", "bob")) == 0
    assert [rate_limits.attempt(wide) > 0 for _ in range(3)] == [False, False, True]
    time_machine.shift(900)
    assert rate_limits.attempt(alice, wide) == 0


def test_in_memory_invented_keys_make_no_counters_once_the_wider_limit_is_full(settings):
    in_memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": uuid4().hex}
    settings.CACHES = {**settings.CACHES, "limits": in_memory}
    settings.RATES = {"token_failures": "5/h"}
    for number in range(50):
        counters = Counter("token_failures", f"invented {number}"), Counter("token_failures", "address")
        rate_limits.attempt(*counters)
    assert len(caches["limits"]._cache) == 6


@needs_redis
def test_a_counter_ends_with_its_window_and_names_nobody(settings):
    settings.RATES = {"userinfo": "1/h"}
    for _ in range(3):
        rate_limits.count(Counter("userinfo", "192.0.2.1"))
        rate_limits.exceeded(Counter("userinfo", "bob"))
    redis = cache._cache.get_client(None)
    (name,) = redis.keys("*")
    assert 0 < redis.ttl(name) <= 3600 + EXPIRATION_FUDGE
    assert b"192.0.2.1" not in name


@needs_redis
def test_an_event_costs_one_round_trip_and_so_does_a_look(settings, monkeypatch):
    settings.RATES = {"userinfo": "5/h", "token": "600/m"}
    counter = Counter("userinfo", "alice")
    rate_limits.count(counter)  # the first of a window also sets when it ends
    sent, send = [], Connection.send_command
    monkeypatch.setattr(Connection, "send_command", lambda *args, **kw: sent.append(args[1]) or send(*args, **kw))
    rate_limits.count(counter)
    assert sent == ["INCRBY"]
    rate_limits.exceeded(counter)
    assert sent == ["INCRBY", "GET"]
    large = Counter("token", "alice")
    assert [rate_limits.count(large) for _ in range(13)] == [0] * 13
    assert [rate_limits.exceeded(large) for _ in range(3)] == [0] * 3
    assert [name for name in sent[2:] if name != "EXPIRE"] == ["INCRBY"] * 3


def test_a_silent_redis_costs_one_time_out_a_second_and_is_logged(settings, monkeypatch, caplog):
    now, tries = [1000.0], []
    monkeypatch.setattr(rate_limits, "outage", Outage())
    monkeypatch.setattr("config.infrastructure.rate_limits.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        silent.setblocking(False)
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        settings.CACHES = {"default": {"OPTIONS": {"socket_timeout": 0.25}}}
        cache = FailOpenRedisCache(settings.REDIS_URL, {})
        for _second in range(3):
            assert all(cache.add("key", 1, 60) for _ in range(100))
            tries.append(0)
            with suppress(BlockingIOError):
                while True:
                    silent.accept()[0].close()
                    tries[-1] += 1
            now[0] += 1
    assert tries == [1, 1, 1]
    assert [record.message for record in caplog.records] == ["Redis is away: limits are not counted."]
