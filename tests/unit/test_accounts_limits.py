"""What every request of a hot path is counted by: one round trip, and the same answer as the others. D21."""

import zlib
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.conf import settings as configured

from accounts import limits

needs_redis = pytest.mark.skipif(not configured.REDIS_URL, reason="needs Redis: set REDIS_URL to one")


@pytest.mark.parametrize(
    ("rate", "read"), [("600/m", (600, 60)), ("10/15m", (10, 900)), ("1/s", (1, 1)), ("5/2h", (5, 7200))]
)
def test_a_rate_is_a_number_in_so_many_seconds(rate, read):
    assert limits._limit_and_seconds(rate) == read


def test_the_request_after_the_last_allowed_one_waits_wherever_it_is_counted(settings):
    settings.RATES = {"userinfo": "3/h"}
    key, other = uuid4().hex, uuid4().hex
    assert [limits.count_request("userinfo", key) for _ in range(3)] == [0, 0, 0]
    assert 1 <= limits.count_request("userinfo", key) <= 3600
    assert limits.count_request("userinfo", other) == 0


def test_off_means_off(settings):
    settings.RATES = {}
    assert [limits.count_request("userinfo", "x") for _ in range(5)] == [0] * 5


@needs_redis
def test_a_second_that_ends_meanwhile_opens_no_window_of_its_own(settings, monkeypatch):
    from django.core.cache import cache

    settings.RATES = {"userinfo": "3/m"}
    key = uuid4().hex
    turn = 60_000_000 - zlib.crc32(key.encode()) % 60
    ticks = iter([turn - 0.001, turn + 0.0])
    monkeypatch.setattr(limits, "time", SimpleNamespace(time=lambda: next(ticks)))
    limits.count_request("userinfo", key)
    (name,) = cache._cache.get_client(None).keys(f"limit:userinfo:{key}:*")
    assert name.decode().endswith(f":{turn - 60}")


@needs_redis
def test_a_counter_ends_with_its_window(settings):
    from django.core.cache import cache

    settings.RATES = {"userinfo": "3/h"}
    key = uuid4().hex
    limits.count_request("userinfo", key)
    client = cache._cache.get_client(None)
    (name,) = client.keys(f"limit:userinfo:{key}:*")
    assert 0 < client.ttl(name) <= 3600
