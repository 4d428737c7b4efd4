"""Counting against limits, the same wherever and by whatever it is counted. D21."""

import zlib
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.conf import settings as configured
from django.core.cache import cache

from config.infrastructure import limits
from config.infrastructure.limits import Counter

# One counted by `config.infrastructure.cache` where there is Redis, one by django-ratelimit everywhere.
BOTH = pytest.mark.parametrize("name", ["userinfo", "sign_in_account"])
pytestmark = pytest.mark.usefixtures("fresh_counters")
needs_redis = pytest.mark.skipif(not configured.REDIS_URL, reason="needs Redis: set REDIS_URL to one")


@pytest.mark.parametrize(
    ("rate", "read"), [("600/m", (600, 60)), ("10/15m", (10, 900)), ("1/s", (1, 1)), ("5/2h", (5, 7200))]
)
def test_a_rate_is_a_number_in_so_many_seconds(rate, read):
    assert limits._limit_and_seconds(rate) == read


@BOTH
def test_the_event_after_the_last_allowed_one_waits(settings, name):
    settings.RATES = {name: "3/h"}
    assert [limits.count(Counter(name, "alice")) for _ in range(3)] == [0, 0, 0]
    assert 1 <= limits.count(Counter(name, "alice")) <= 3600
    assert limits.count(Counter(name, "bob")) == 0


@BOTH
def test_looking_counts_nothing_and_says_whether_one_more_fits(settings, name):
    settings.RATES = {name: "2/h"}
    for _ in range(5):
        assert limits.exceeded(Counter(name, "alice")) == 0
    limits.count(Counter(name, "alice"))
    assert limits.exceeded(Counter(name, "alice")) == 0
    limits.count(Counter(name, "alice"))
    assert 1 <= limits.exceeded(Counter(name, "alice")) <= 3600


@BOTH
def test_a_counter_may_allow_a_multiple_or_a_share_of_the_rate_and_one_event_at_least(settings, name):
    settings.RATES = {name: "4/h"}
    for times, allowed in ((2, 8), (0.5, 2), (0.1, 1)):
        counter = Counter(name, f"alice {times}", times)
        assert [limits.count(counter) > 0 for _ in range(allowed + 1)] == [False] * allowed + [True]


@BOTH
def test_what_is_refused_by_one_limit_counts_for_no_wider_one(settings, name):
    settings.RATES = {name: "2/h"}
    narrow, wide = Counter(name, "alice"), Counter(name, "everybody", times=2)
    assert [limits.count(narrow, wide) > 0 for _ in range(9)] == [False] * 2 + [True] * 7
    assert [limits.count(Counter(name, "bob"), wide) > 0 for _ in range(3)] == [False] * 2 + [True]
    assert limits.exceeded(Counter(name, "carol"), wide)


@BOTH
def test_off_means_off(settings, name):
    settings.RATES = {}
    counters = Counter(name, "x"), Counter(name, "y", rate="1/h")
    assert [limits.count(*counters) for _ in range(5)] == [0] * 5
    assert limits.exceeded(*counters) == 0


def test_a_cache_that_is_away_limits_nobody(settings):
    settings.RATES = {"sign_in_account": "1/m"}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    assert not any(limits.count(Counter("sign_in_account", "alice")) for _ in range(5))


def test_in_memory_invented_keys_make_no_counters_once_the_wider_limit_is_full(settings):
    """So one machine can't make the 100,000 counters that let older ones be forgotten."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": uuid4().hex}}
    settings.RATES = {"token_failures": "5/h"}
    for number in range(50):
        counters = Counter("token_failures", f"invented {number}"), Counter("token_failures", "address")
        limits.exceeded(*counters) or limits.count(*counters)
    assert len(cache._cache) == 6


@needs_redis
def test_a_second_that_ends_meanwhile_opens_no_window_of_its_own(settings, monkeypatch):
    settings.RATES = {"userinfo": "3/m"}
    turn = 60_000_000 - zlib.crc32(b"alice") % 60
    ticks = iter([turn - 0.001, turn + 0.0])
    monkeypatch.setattr(limits, "time", SimpleNamespace(time=lambda: next(ticks)))
    limits.count(Counter("userinfo", "alice"))
    (name,) = counters_in_redis()
    assert name.decode().endswith(f":{turn - 60}")


@needs_redis
def test_a_counter_ends_with_its_window_also_when_an_event_was_taken_back(settings):
    settings.RATES = {"userinfo": "1/h"}
    for _ in range(2):
        limits.count(Counter("userinfo", "alice"), Counter("userinfo", "everybody", 5))
    names = counters_in_redis()
    assert len(names) == 2
    assert all(0 < cache._cache.get_client(None).ttl(name) <= 3600 for name in names)


@needs_redis
@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8:1:2::/64"])
def test_what_is_allowed_costs_one_round_trip(settings, monkeypatch, address):
    settings.RATES = {"authorize": "5/h"}
    sent = []
    cache_class = type(cache._connections[cache._alias])
    ask = cache_class._ask
    monkeypatch.setattr(cache_class, "_ask", lambda self, commands: sent.append(commands) or ask(self, commands))
    limits.count(*limits.by_address("authorize", address))
    assert len(sent) == 1


def counters_in_redis():
    return cache._cache.get_client(None).keys("limit:*")
