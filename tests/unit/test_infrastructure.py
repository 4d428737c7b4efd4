"""Where a request comes from (D21), text that pages can't show, and the tables of errors (D19, D24)."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import RequestFactory
from django.utils import translation

import config.urls  # noqa: F401 - imports every package that declares faults
from accounts.errors import AccountFault
from config.infrastructure.errors import Fault, RequestError, SiteFault
from config.infrastructure.network import client_address
from config.infrastructure.texts import first_grapheme, refuse_control_characters
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.authorization import UnverifiedRequest
from tests.contract_coverage import contract


@contract("D21.proxy", "D21.ipv6")
def test_the_address_is_the_right_most_untrusted_one(settings: Any) -> None:
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]
    for peer, forwarded, address in (
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
    ):
        sent = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
        assert client_address(RequestFactory().get("/", REMOTE_ADDR=peer, **sent)) == address, (peer, forwarded)


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


ALLOWED = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")
STATUSES = {200, 302, 400, 401, 403, 404, 405, 413, 429, 431, 500, 503}
NAMED = [(name, fault) for kind in Fault.__subclasses__() for name, fault in kind.__members__.items()]
# Their problem says what to do.
WITHOUT_FIX = {
    OAuthFault.REFUSED,
    OAuthFault.CHALLENGE_MALFORMED,
    OAuthFault.BASIC_MALFORMED,
    OAuthFault.VERIFIER_MALFORMED,
    OAuthFault.TOKEN_MALFORMED,
}


def test_each_fault_has_two_sentences_of_its_own_in_allowed_characters():
    for name, fault in NAMED:
        assert fault.name == name  # a fault with the values of another one would be its alias
        assert ALLOWED.fullmatch(fault.sentence), name
        assert fault.problem.endswith("."), name
        assert fault.fix.endswith((".", "{hint}")) or fault in WITHOUT_FIX or isinstance(fault, AccountFault), name
        assert fault.status in STATUSES, name
    for each in ([name for name, _ in NAMED], [fault.sentence for _, fault in NAMED]):
        assert len(set(each)) == len(each)


def test_the_description_and_a_page_join_the_two_sentences_as_their_language_does(monkeypatch):
    assert OAuthFault.REFUSED.describe() == "The person refused the authorization."
    assert SiteFault.CSRF.translate() == SiteFault.CSRF.describe()
    with translation.override("de"):
        assert not SiteFault.CSRF.translate().endswith(" ")
    translated = {SiteFault.CSRF.problem: "表单已过期。", SiteFault.CSRF.fix: "请重新打开页面。"}
    monkeypatch.setattr("config.infrastructure.errors.gettext", translated.__getitem__)
    assert SiteFault.CSRF.translate() == "表单已过期。请重新打开页面。"


def test_an_exception_shows_no_value_keeps_private_details_apart_and_what_is_known_first():
    said = RequestError(OAuthFault.REPEATED, name='st"ate\\\n\x00é').description
    assert (bool(ALLOWED.fullmatch(said)), "st?ate" in said) == (True, True)
    refused = UnverifiedRequest(OAuthFault.MALFORMED, name="value-of-a-stranger")
    assert "value-of-a-stranger" not in repr(refused) + str(refused)
    error = RequestError(OAuthFault.MISSING, name="code")
    assert error.about(age=1).cause == "missing", "the code, unless a finer cause is known"
    assert error.about(cause="code_missing", age=2, shape="empty").about(cause="other").cause == "code_missing"
    assert (error.private, error.details) == ({"age": 1, "shape": "empty"}, {"name": "code"})
    assert not any(private in repr(error) + error.description for private in ("code_missing", "empty"))
