"""An application without a backend: its script, on another origin, does the whole exchange. D9, D22."""

from __future__ import annotations

from playwright.sync_api import Page

from oauth_bridge.models import Application
from tests.browser.conftest import Way, allow
from tests.contract_coverage import contract
from tests.driver import record
from tests.factories import ApplicationFactory

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


def code_of_application_without_backend(way: Way, page: Page) -> str:
    """The code, on the application's page, after the person allowed it."""
    page.goto(way.client.origin)
    with page.expect_navigation():
        page.evaluate(START, [way.link()])
    if page.locator("[name=decision]").count() == 0:
        way.sign_in(page)
    allow(page)
    return way.client.last["code"]


@contract("D22.origins", "D22.preflight", "D22.errors")
def test_a_script_of_another_origin_signs_a_person_in_and_reads_what_was_wrong(way: Way) -> None:
    page, api = way.page(), way.driver.base_url
    way.application = ApplicationFactory(redirect_uris=way.client.callback, client_type=Application.CLIENT_PUBLIC)
    client_id = way.application.client_id
    code = code_of_application_without_backend(way, page)
    status, answer = page.evaluate(EXCHANGE, [api, client_id, code])
    assert status == 200
    record(answer["access_token"])
    status, profile, _ = page.evaluate(READ, [api, answer["access_token"], "GET"])
    assert (status, profile["email"]) == (200, way.person.email)

    code = code_of_application_without_backend(way, page)
    page.evaluate("sessionStorage.setItem('verifier', 'v'.repeat(43))")
    status, answer = page.evaluate(EXCHANGE, [api, client_id, code])
    assert (status, answer["error"]) == (400, "invalid_grant")
    assert "code_verifier does not match" in answer["error_description"]
    status, answer, challenge = page.evaluate(READ, [api, "never-issued", "GET"])
    assert (status, answer["error"]) == (401, "invalid_token")
    assert 'error="invalid_token"' in challenge
    assert page.evaluate(READ, [api, "never-issued", "POST"])[0] == 401
