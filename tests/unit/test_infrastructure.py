"""Where a request comes from (D21), and text that pages can't show."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import RequestFactory

from config.infrastructure.network import client_address, site_of
from config.infrastructure.texts import first_grapheme, refuse_control_characters
from tests.contract_coverage import contract


@contract("D21.proxy", "D21.ipv6")
@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, rubbish", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
        ("2001:db8:ffff::1", "2001:db8:9:9:9::9", "2001:db8:9:9::/64"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("fe80::1%eth0", "", "fe80::/64"),
        ("::1", "", "::1"),
        ("", "198.51.100.7", "unknown"),
    ],
)
def test_the_address_is_the_right_most_untrusted_one(peer: str, forwarded: str, address: str, settings: Any) -> None:
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]
    sent = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
    assert client_address(RequestFactory().get("/", REMOTE_ADDR=peer, **sent)) == address


def test_a_site_is_the_48_of_an_ipv6_address() -> None:
    sites = {"2001:db8:1:2::/64": "2001:db8:1::/48", "::1": "::/48", "192.0.2.1": "", "unknown": ""}
    assert {address: site_of(address) for address in sites} == sites


def test_a_text_of_which_nothing_is_seen_is_refused() -> None:
    for text in ("\u200b", "\u200b \u200d\ufeff", "\u3164\u3164", "\u00ad", "\U000e0041", "\u200f"):
        with pytest.raises(ValidationError):
            refuse_control_characters(text)
    for text in ("", "  ", "a\u200b", "👩🏽\u200d🚀", "می\u200cخواهم", "\u200fمقهى"):
        refuse_control_characters(text)


def test_the_first_grapheme_is_what_a_reader_sees_as_one_character() -> None:
    whole = ["", "R", "e\u0301", "👩🏽‍🚀", "🇳🇴", "❤️", "👍🏿"]
    assert [first_grapheme(text and f"{text} List") for text in whole] == whole
    assert first_grapheme("🇳🇴🇳🇴") == "🇳🇴"
