"""Where a request comes from, and counting by it (D21)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.core.cache import cache
from django.test import RequestFactory

from accounts import limits
from accounts.network import client_address

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    cache.clear()


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, rubbish", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3:4:5:6", None, "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", None, "2001:db8:1:2::/64"),
        ("2001:db8:ffff::1", "2001:db8:9:9:9::9", "2001:db8:9:9::/64"),
        ("::ffff:192.0.2.1", None, "192.0.2.1"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("fe80::1%eth0", None, "fe80::/64"),
        ("", None, "unknown"),
        ("", "198.51.100.7", "unknown"),
        ("@", None, "unknown"),
    ],
)
def test_the_address_is_the_right_most_untrusted_one(
    peer: str, forwarded: str | None, address: str, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = PROXIES
    request = RequestFactory().get("/", REMOTE_ADDR=peer)
    if forwarded is not None:
        request.META["HTTP_X_FORWARDED_FOR"] = forwarded
    assert client_address(request) == address


def test_the_limit_is_the_number_of_events_that_pass(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    assert [limits.count("sign_in_account", "alice") for _ in range(3)] == [0, 0, 0]
    assert 1 <= limits.count("sign_in_account", "alice") <= 900
    assert limits.count("sign_in_account", "bob") == 0


def test_looking_counts_nothing_and_says_whether_one_more_fits(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/m"}
    for _ in range(5):
        assert limits.exceeded("sign_in_account", "alice") == 0
    limits.count("sign_in_account", "alice")
    assert limits.exceeded("sign_in_account", "alice") == 0
    limits.count("sign_in_account", "alice")
    assert 1 <= limits.exceeded("sign_in_account", "alice") <= 60


def test_no_limits_when_they_are_off(settings: Any) -> None:
    settings.RATES = {}
    assert not any(limits.count("reset_mail", "alice", rate="1/h") for _ in range(5))
    assert limits.exceeded("sign_in_account", "alice") == 0


def test_a_cache_that_is_away_limits_nobody(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "1/m"}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    settings.RATELIMIT_FAIL_OPEN = True
    assert not any(limits.count("sign_in_account", "alice") for _ in range(5))
