"""Specification 4.2: the parameters of the callback, byte for byte."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

import pytest

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, Registered

STATES: list[bytes] = [
    b" spaces at both ends ",
    b"",
    b"\"quotes\" and 'quotes' <b>&amp;</b> &lt;",
    b"a=b&c=d;e?f#g%25+h",
    "snowman ☃, אבג, 𝄞, e\u0301 is not é".encode(),
    b"line\r\nSet-Cookie: x=y\n",
    b"nul\x00inside",
    b"\xff\xfe not UTF-8",
    b"{{ settings.SECRET_KEY }}{% csrf_token %}",
    b"https://evil.example/?code=stolen",
    ("\N{SNOWMAN}" * 1366).encode()[:4096],
]


def link(driver: OAuthDriver, application: Registered, state: bytes, **changes: str) -> str:
    return f"{driver.authorization_url(application, state=None, **changes)}&state={quote_from_bytes(state, safe='')}"


# PostgreSQL stores no NUL.
@pytest.mark.integration
@contract("4.2/state", "4.1/state", "D5.state", "D6.success", "4.2/code")
@contract("3.4", "4.2/error", "7/callback", "D6.refusal", "D4.later", "D7.trusted", "D19.sentence")
@pytest.mark.parametrize("state", STATES, ids=lambda state: repr(state[:20]))
def test_state_comes_back_byte_for_byte_with_a_code_a_refusal_and_a_fault(
    driver: OAuthDriver, application: Registered, alice: Any, state: bytes
) -> None:
    callback = driver.authorize(link(driver, application, state), alice.email, PASSWORD)
    assert set(callback.parameters) == {"code", "state"}
    assert driver.exchange(application, callback.parameters["code"]).status_code == 200
    answer = driver.decide(driver.open(link(driver, application, state)), "refuse")
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    refused = driver.callback(answer)
    assert set(refused.parameters) == {"error", "error_description", "state"}
    assert refused.parameters["error"] == "access_denied"
    assert refused.parameters["error_description"].endswith(".")
    assert '"' not in refused.parameters["error_description"]
    faulty = driver.callback(driver.open(link(driver, application, state, response_type="x")))
    answer = driver.get(link(driver, ApplicationFactory(is_trusted=True), state))
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    trusted = driver.callback(answer)
    assert [unquote_to_bytes(each.raw("state") or "") for each in (callback, refused, faulty, trusted)] == [state] * 4


@contract("D5.state", "D5.absent", "4.1/state", "5.5")
def test_a_state_may_be_absent_and_is_read_as_a_form(signed_in: OAuthDriver, application: Registered) -> None:
    without = signed_in.authorization_url(application, state=None)
    assert set(signed_in.authorize(without, "", "").parameters) == {"code"}
    for sent, told in (("a+b%2Bc", "a%20b%2Bc"), ("a=b", "a%3Db"), ("%c3%a9", "%C3%A9"), ("", "")):
        assert signed_in.authorize(f"{without}&state={sent}", "", "").raw("state") == told


@contract("2.1/client_id", "2.1/client_secret", "2.1/redirect_uri", "2.2/delivery", "5.4", "D3.exact", "D6.success")
@contract("D10.equal", "D20.no-store", "D20.referrer")
def test_each_registered_address_is_served_with_its_query_and_kept_by_nobody(signed_in: OAuthDriver) -> None:
    addresses = ["https://client.example/cb?a=%2F&b", "https://client.example", "http://127.0.0.1:8181/cb?x="]
    application = ApplicationFactory(redirect_uris="\n".join(addresses))
    for address in addresses:
        page = signed_in.open(signed_in.authorization_url(application, redirect_uri=address, state="s"))
        answer = signed_in.decide(page, follow=False)
        assert answer.status_code in (302, 303)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.content == b""
        callback = signed_in.callback(answer)
        code = callback.parameters["code"]
        assert callback.url == f"{address}{'&' if '?' in address else '?'}code={code}&state=s"
        assert application.client_secret not in callback.url
        refused = signed_in.exchange(application, code, redirect_uri=f"{address}/")
        error_of(refused, 400, "invalid_grant")
        assert signed_in.exchange(application, code, redirect_uri=address).status_code == 200


@contract("D6.success", "D6.refusal")
@pytest.mark.parametrize("decision", ["allow", "refuse"])
def test_a_private_scheme_is_reached_by_a_page_with_a_visible_way_on(signed_in: OAuthDriver, decision: str) -> None:
    application = ApplicationFactory(redirect_uris="com.example.app:/callback")
    page = signed_in.open(signed_in.authorization_url(application, state="s"))
    answer = signed_in.decide(page, decision)
    assert answer.status_code == 200
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    url = Page(answer).refresh
    assert url
    assert url in Page(answer).links
    callback = signed_in.callback(answer)
    assert callback.address == "com.example.app:/callback"
    assert ("code" in callback.parameters) is (decision == "allow")
