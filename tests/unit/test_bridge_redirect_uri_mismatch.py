"""A callback address that is not registered is compared with those that are, for administrators. D3."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from oauth_bridge.callback_addresses.difference import REASONS, compare, reason
from oauth_bridge.callback_addresses.masking import masked
from oauth_bridge.models import Application
from tests.grants import HTML, Attempt
from tests.pages import html_of

APP = "https://app.example.org/oauth/callback"
LOCAL = "http://localhost:3000/cb"
OWN = "com.example.app:/callback"

# The registered address, the sent one, the classes.
PAIRS = [
    (APP, "http://app.example.org/oauth/callback", "scheme"),
    (APP, "http://app.example.org:80/oauth/callback", "scheme port"),
    (APP, "http://www.app.example.org:8080/oauth/callback/", "scheme www port slash"),
    (APP, "app.example.org/oauth/callback", "scheme_missing"),
    (LOCAL, "localhost:3000/cb", "scheme_missing"),
    (OWN, "com.example.app://callback", "scheme"),
    (APP, "https://App.Example.org/oauth/callback", "case"),
    (APP, "https://www.app.example.org/oauth/callback", "www"),
    (LOCAL, "http://127.0.0.1:3000/cb", "loopback"),
    (LOCAL, "http://[::1]:3000/cb", "loopback"),
    (LOCAL, "http://localhost:3001/cb", "loopback_port"),
    ("http://localhost/cb", "http://localhost:3001/cb", "loopback_port"),
    (LOCAL, "http://127.0.0.1:3001/cb", "loopback loopback_port"),
    (LOCAL, "http://localhost/cb", "loopback_port"),
    (APP, "https://app.example.org:443/oauth/callback", "port"),
    (APP, "https://app.example.org/oauth/callback/", "slash"),
    (APP, "https://app.example.org", "path"),
    (APP, "https://app.example.org/OAuth/Callback", "case"),
    (APP, "https://app.example.org/oauth/calback", "path"),
    (APP, "https://app.exmaple.org/oauth/callback", "host"),
    (APP, "https://staging.example.org/oauth/callback", "host"),
    (APP, "https://app.example.org./oauth/callback", "host"),
    (APP, "https://user:pw@app.example.org/oauth/callback", "userinfo"),
    (APP, "https://app.example.org/oauth/callback?state=abc", "query"),
    ("https://app.example.org/cb?tenant=1", "https://app.example.org/cb", "query"),
    (APP, "https://app.example.org/oauth/callback#", "fragment"),
    (APP, "https://app.example.org/oauth%2Fcallback", "path"),
    (APP, "https%3A%2F%2Fapp.example.org%2Foauth%2Fcallback", "encoded_twice"),
    ("https://app.example.org/cb?a=1&b=2", "https://app.example.org/cb?a=1", "not_encoded"),
    ("https://app.example.org/cb?next=%2Fhome", "https://app.example.org/cb?next=/home", "not_encoded"),
    ("https://app.example.org/cb?q=a+b", "https://app.example.org/cb?q=a b", "not_encoded"),
    ("https://app.example.org/cb?a=1&b=2", "https://app.example.org/cb?a=2", "query"),
    (APP, " https://app.example.org/oauth/callback\r\n", "whitespace"),
    (APP, "https://app.example.org/oauth/callback\u200b", "whitespace"),
    (APP, '"https://app.example.org/oauth/callback"', "quotes"),
    ("https://xn--bcher-kva.example/cb", "https://bücher.example/cb", "host"),
    (APP, "https://evil.test/steal", "another_host"),
    (APP, "https://app.example.org/login/finish", "path"),
    (APP, "http://app.example.org/oauth/calback", "scheme path"),
    (APP, "", "another_host"),
]


@pytest.mark.parametrize(("registered", "sent", "classes"), PAIRS)
def test_the_classes_of_a_difference(registered: str, sent: str, classes: str) -> None:
    found = compare(sent, ["https://other.test/somewhere", registered])
    assert set(found.differs) == set(classes.split())
    assert found.nearest == ("" if classes == "another_host" else registered)
    assert reason(found.differs).endswith(".")
    assert compare(registered, [APP, registered]) == (registered, ()), "nothing differs from itself"


def test_a_port_that_a_public_application_may_choose_is_no_difference() -> None:
    for sent, differs in (
        ("http://localhost:3001/cbx", ("path",)),
        ("http://127.0.0.1:3001/cb", ("loopback",)),
        ("https://localhost:3001/cb", ("scheme",)),
        ("http://localhost:03001/cb", ("loopback_port",)),
    ):
        assert compare(sent, ["http://localhost/cb"], is_public=True).differs == differs
    assert compare("http://localhost:3001/cb", [LOCAL], is_public=True).differs == ("loopback_port",)
    assert "without a port" in reason(["loopback_port"])


def test_the_nearest_of_several_is_meant() -> None:
    both = [APP, "https://app.example.org/oauth/callback/google", "https://staging.example.org/oauth/callback"]
    assert compare("https://app.example.org/oauth/callback/gogle", both).nearest == both[1]
    assert compare("https://staging.example.org/oauth/callback/", both).nearest == both[2]
    found = compare("https://app.example.org/cb3", ["https://app.example.org/cb1", "https://app.example.org/cb2"])
    assert found.nearest == "https://app.example.org/cb1"
    assert compare("anything", []) == ("", ("another_host",))


def test_each_difference_that_must_be_mended_has_its_advice() -> None:
    assert {name for *_, classes in PAIRS for name in classes.split()} == REASONS.keys()
    assert all(reason([name]) for name in REASONS)
    port, slash = reason(["port"]), reason(["slash"])
    assert reason(["slash", "port"]) == f"{port} {slash}"
    assert reason(["another_host", "port", "slash"]) == reason(["another_host"])
    assert reason(["scheme", "port", "slash"]).endswith(f"too. {port} {slash}")


def test_what_may_be_a_credential_is_masked() -> None:
    assert masked("https://user:pw@h.example:8/p?code=c&a=&b#token") == "https://…@h.example:8/p?code=…&a=…&…#…"
    assert masked("https://h.example/p?secret") == "https://h.example/p?…"
    assert masked("https://h.example/users/@me") == "https://h.example/users/@me"
    assert masked("com.example.app:/callback") == "com.example.app:/callback"
    assert masked(APP) == APP
    assert masked("/p\x00\ud800") == "/p??"
    assert len(masked("https://h.example/" + "a" * 100_000)) == 500


WRITTEN_WRONG = [
    " https://user:SECRET@h.example/cb",
    "user:SECRET@h.example/cb",
    "//user:SECRET@h.example/cb",
    "https:/user:SECRET@h.example/cb",
    "https:\\\\user:SECRET@h.example/cb",
    "https:user:SECRET@h.example/cb",
    "https://user:SEC/RET@h.example/cb",
    "https://user@example.com:SECRET@h.example/cb",
    "https%3A%2F%2Fuser%3ASECRET%40h.example%2Fcb%3Fcode%3DSECRET",
    "https://h.example/cb?SECRET&a=b",
    "https://h.example/cb?a=1&SECRET",
    "https://h.example/cb?a=1;b=SECRET",
    "https://h.example/cb?code=x=SECRET",
    "https://h.example/cb#SECRET?x",
    "https://h.example/cb%3Fcode=SECRET",
    "https://h.example/cb%3fcode%3DSECRET",
    "https://h.example/cb;token=SECRET",
    "https://h.example/cb&code=SECRET",
]


def test_a_credential_is_masked_in_an_address_that_is_written_wrong() -> None:
    assert [sent for sent in WRITTEN_WRONG if re.search("SEC|RET", masked(sent))] == []


@given(st.text(st.characters(), max_size=200))
@example("https://app.example.org/" + "ab" * 50_000)
@example("https://" + "a." * 50_000)
@example("https://" + ".".join(["漢" * 14] * 30) + "/cb")
def test_no_text_is_too_odd(text: str) -> None:
    masked(text)
    reason(compare(text, [APP, LOCAL, OWN]).differs)


