"""An application without a backend: its script, on another origin, does the whole exchange. D9, D22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from oauth_bridge.models import Application
from tests.browser.conftest import Client, sign_in
from tests.browser.test_flows import CALLBACK, allow
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, record
from tests.factories import PASSWORD, ApplicationFactory, Registered

START = """async ([link]) => {
    const encoded = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes)))
        .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const verifier = encoded(crypto.getRandomValues(new Uint8Array(32)));
    sessionStorage.setItem("verifier", verifier);
    const challenge = encoded(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
    location.assign(`${link}&code_challenge=${challenge}&code_challenge_method=S256`);
}"""
EXCHANGE = """async ([api, client_id, code]) => {
    const form = {grant_type: "authorization_code", client_id, code, code_verifier: sessionStorage.getItem("verifier")};
    const answer = await fetch(`${api}/oauth/token`, {method: "POST", body: new URLSearchParams(form)});
    return [answer.status, await answer.json()];
}"""
READ = """async ([api, token, method]) => {
    const answer = await fetch(`${api}/oauth/userinfo`, {method, headers: {Authorization: `Bearer ${token}`}});
    return [answer.status, await answer.json(), answer.headers.get("WWW-Authenticate")];
}"""


@pytest.fixture
def without_backend(committed: None, client_server: Client) -> Registered:
    registered: Registered = ApplicationFactory(
        redirect_uris=client_server.callback, client_type=Application.CLIENT_PUBLIC
    )
    return registered


def back_at_the_application(
    page: Page, link: Callable[..., str], client_server: Client, application: Registered, alice: Any
) -> str:
    """The code, on the application's page, after the person allowed it."""
    page.goto("{0.scheme}://{0.netloc}/".format(urlsplit(client_server.callback)))
    with page.expect_navigation():
        page.evaluate(START, [link(application)])
    sign_in(page, alice.email, PASSWORD)
    allow(page)
    expect(page).to_have_url(CALLBACK)
    return client_server.last["code"]


@contract("D22.origins", "D22.preflight")
def test_a_script_of_another_origin_signs_a_person_in(
    page: Page,
    driver: OAuthDriver,
    link: Callable[..., str],
    client_server: Client,
    without_backend: Registered,
    alice: Any,
) -> None:
    code = back_at_the_application(page, link, client_server, without_backend, alice)
    status, answer = page.evaluate(EXCHANGE, [driver.base_url, without_backend.client_id, code])
    assert status == 200
    record(answer["access_token"])
    status, profile, _ = page.evaluate(READ, [driver.base_url, answer["access_token"], "GET"])
    assert status == 200
    assert profile["email"] == alice.email


@contract("D22.errors", "D22.origins")
def test_a_script_of_another_origin_reads_what_was_wrong(
    page: Page,
    driver: OAuthDriver,
    link: Callable[..., str],
    client_server: Client,
    without_backend: Registered,
    alice: Any,
) -> None:
    code = back_at_the_application(page, link, client_server, without_backend, alice)
    page.evaluate("sessionStorage.setItem('verifier', 'v'.repeat(43))")
    status, answer = page.evaluate(EXCHANGE, [driver.base_url, without_backend.client_id, code])
    assert (status, answer["error"]) == (400, "invalid_grant")
    assert "code_verifier does not match" in answer["error_description"]
    status, answer, challenge = page.evaluate(READ, [driver.base_url, "never-issued", "GET"])
    assert (status, answer["error"]) == (401, "invalid_token")
    assert 'error="invalid_token"' in challenge
    assert page.evaluate(READ, [driver.base_url, "never-issued", "POST"])[0] == 401
