"""An application without a backend: its script, on another origin, does the whole exchange. D9, D22."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from oauth_bridge.api_docs import snippets
from oauth_bridge.models import Application
from tests.browser.conftest import Way, allow
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory

FAILURE = "profile().catch((failure) => failure.message)"
ANOTHER_VERIFIER = """() => {
    const kept = JSON.parse(sessionStorage.getItem("sign-in"));
    sessionStorage.setItem("sign-in", JSON.stringify({...kept, verifier: "v".repeat(43)}));
}"""
READ = """async ([api, token, method]) => {
    const answer = await fetch(`${api}/oauth/userinfo`, {method, headers: {Authorization: `Bearer ${token}`}});
    return [answer.status, await answer.json(), answer.headers.get("WWW-Authenticate")];
}"""


def sign_in_with_the_code_of_the_guide(way: Way, page: Page) -> None:
    """The page is then at the application's callback address, with the functions of the guide."""
    code = snippets.fill_for(snippets.blocks("guide", "js")["single-page"], way.application.row)
    page.goto(way.client.origin)
    page.add_script_tag(content=code)
    with page.expect_navigation():
        page.evaluate("() => { signIn(); }")
    if page.locator("[name=decision]").count() == 0:
        way.sign_in(page)
    allow(page)
    page.add_script_tag(content=code)


@contract("D22.origins", "D22.preflight", "D22.errors")
def test_a_script_of_another_origin_signs_a_person_in_and_reads_what_was_wrong(way: Way, settings: Any) -> None:
    page, api = way.page(), way.driver.base_url
    way.application = ApplicationFactory(redirect_uris=way.client.callback, client_type=Application.CLIENT_PUBLIC)
    settings.AUTH_URL, settings.BASE_URL = way.driver.auth_url, api
    sign_in_with_the_code_of_the_guide(way, page)
    profile = page.evaluate("profile()")
    assert (profile["sub"], profile["email"]) == (str(way.person.pk), way.person.email)
    assert page.url == way.client.callback, "the code is gone from the address bar"
    assert "is not of this session" in page.evaluate(FAILURE)

    sign_in_with_the_code_of_the_guide(way, page)
    page.evaluate(ANOTHER_VERIFIER)
    assert "code_verifier does not match" in page.evaluate(FAILURE)
    status, answer, challenge = page.evaluate(READ, [api, "never-issued", "GET"])
    assert (status, answer["error"]) == (401, "invalid_token")
    assert 'error="invalid_token"' in challenge
    assert page.evaluate(READ, [api, "never-issued", "POST"])[0] == 401
