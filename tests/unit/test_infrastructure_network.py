"""Where a request comes from (D21)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.test import RequestFactory

from config.infrastructure.network import client_address, site_of

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, rubbish", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3:4:5:6", None, "2001:db8:1:2::/64"),
        ("2001:db8:ffff::1", "2001:db8:9:9:9::9", "2001:db8:9:9::/64"),
        ("::ffff:192.0.2.1", None, "192.0.2.1"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("fe80::1%eth0", None, "fe80::/64"),
        ("::1", None, "::1"),
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


def test_a_site_is_the_48_of_an_ipv6_address() -> None:
    sites = {"2001:db8:1:2::/64": "2001:db8:1::/48", "::1": "::/48", "192.0.2.1": "", "unknown": ""}
    assert {address: site_of(address) for address in sites} == sites
