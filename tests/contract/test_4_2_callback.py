"""Specification 4.2: the parameters of the callback, byte for byte."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

import pytest

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, Registered

STATES: list[bytes] = [
    b"plain",
    b" spaces at both ends ",
    b"\t",
    b"",
    b"\"quotes\" and 'quotes' <b>&amp;</b> &lt;",
    b"a=b&c=d;e?f#g%25+h",
    "snowman ☃, אבג, 𝄞, e\u0301 is not é".encode(),
    b"line\r\nSet-Cookie: x=y\n",
    b"nul\x00inside",
    b"\xff\xfe not UTF-8",
    b"{{ settings.SECRET_KEY }}{% csrf_token %}",
    b"https://evil.example/?code=stolen",
    b"a" * 4096,
    ("\N{SNOWMAN}" * 1366).encode()[:4096],
]


def named(state: bytes) -> str:
    return f"{state[:20]!r}..." if len(state) > 20 else repr(state)


def link(driver: OAuthDriver, application: Registered, state: bytes, **changes: str) -> str:
    return f"{driver.authorization_url(application, state=None, **changes)}&state={quote_from_bytes(state, safe='')}"


@contract("4.2/state", "4.1/state", "D5.state", "D6.success", "4.2/code")
@pytest.mark.parametrize("state", STATES, ids=named)
def test_state_comes_back_byte_for_byte_through_sign_in_and_consent(
    driver: OAuthDriver, application: Registered, alice: Any, state: bytes
) -> None:
    callback = driver.authorize(link(driver, application, state), alice.email, PASSWORD)
    raw = callback.raw("state")
    assert raw is not None
    assert unquote_to_bytes(raw) == state
    assert set(callback.parameters) == {"code", "state"}
    assert driver.exchange(application, callback.parameters["code"]).status_code == 200


@contract("D5.state", "D6.refusal", "D4.later")
@pytest.mark.parametrize("state", STATES[1:11], ids=named)
def test_state_comes_back_byte_for_byte_with_a_refusal_and_with_a_fault(
    signed_in: OAuthDriver, application: Registered, state: bytes
) -> None:
    page = signed_in.open(link(signed_in, application, state))
    refused = signed_in.callback(signed_in.decide(page, "refuse"))
    faulty = signed_in.callback(signed_in.open(link(signed_in, application, state, response_type="x")))
    for callback in (refused, faulty):
        raw = callback.raw("state")
        assert raw is not None
        assert unquote_to_bytes(raw) == state


@contract("D5.state", "D7.trusted")
@pytest.mark.parametrize("state", STATES, ids=named)
def test_state_comes_back_byte_for_byte_where_nothing_is_asked(signed_in: OAuthDriver, state: bytes) -> None:
    trusted = ApplicationFactory(is_trusted=True)
    raw = signed_in.callback(signed_in.get(link(signed_in, trusted, state))).raw("state")
    assert raw is not None
    assert unquote_to_bytes(raw) == state


@contract("D5.state")
def test_a_plus_sign_in_the_query_is_a_space(signed_in: OAuthDriver, application: Registered) -> None:
    page = signed_in.open(f"{signed_in.authorization_url(application, state=None)}&state=a+b%2Bc")
    assert signed_in.callback(signed_in.decide(page)).parameters["state"] == "a b+c"


@contract("D6.success", "D20.no-store", "D20.referrer", "2.2/delivery")
def test_the_redirect_with_the_code_is_kept_by_nobody(signed_in: OAuthDriver, application: Registered) -> None:
    answer = signed_in.decide(signed_in.open(signed_in.authorization_url(application)), follow=False)
    assert answer.status_code in (302, 303)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.content == b""


@contract("D6.success")
def test_a_query_of_the_registered_address_stays_as_it_is(signed_in: OAuthDriver) -> None:
    for address in ("https://client.example/cb?a=%2F&b", "https://client.example", "http://127.0.0.1:8181/cb?x="):
        application = ApplicationFactory(redirect_uris=address)
        page = signed_in.open(signed_in.authorization_url(application))
        callback = signed_in.callback(signed_in.decide(page))
        assert callback.url.startswith(address)
        assert callback.url[len(address)] == ("&" if "?" in address else "?")


@contract("D6.success", "D6.refusal")
@pytest.mark.parametrize("decision", ["allow", "refuse"])
def test_a_private_scheme_is_reached_by_a_page_with_a_visible_way_on(signed_in: OAuthDriver, decision: str) -> None:
    application = ApplicationFactory(redirect_uris="com.example.app:/callback")
    page = signed_in.open(signed_in.authorization_url(application, state="s"))
    assert "form-action 'self' com.example.app:" in page.headers["Content-Security-Policy"]
    answer = signed_in.decide(page, decision)
    assert answer.status_code == 200
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    url = Page(answer).refresh
    assert url
    assert url in Page(answer).links
    callback = signed_in.callback(answer)
    assert callback.address == "com.example.app:/callback"
    assert ("code" in callback.parameters) is (decision == "allow")


@contract("4.2/error", "D6.refusal", "D19.sentence")
def test_the_description_of_a_refusal_is_one_plain_sentence(signed_in: OAuthDriver, application: Registered) -> None:
    page = signed_in.open(signed_in.authorization_url(application))
    parameters = signed_in.callback(signed_in.decide(page, "refuse")).parameters
    assert parameters["error_description"].endswith(".")
    assert '"' not in parameters["error_description"]


@contract("2.1/redirect_uri", "5.4", "D3.exact")
def test_each_registered_address_is_served_and_the_code_belongs_to_it(signed_in: OAuthDriver) -> None:
    addresses = ["https://client.example/one", "https://client.example/two", "http://localhost:9000/three"]
    application = ApplicationFactory(redirect_uris="\n".join(addresses))
    for address in addresses:
        page = signed_in.open(signed_in.authorization_url(application, redirect_uri=address))
        callback = signed_in.callback(signed_in.decide(page))
        assert callback.address == address
        code = callback.parameters["code"]
        assert signed_in.exchange(application, code, redirect_uri=address).status_code == 200
