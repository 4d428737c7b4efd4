"""OpenID Connect in a real browser: the posted answer, a fresh proof, another account than expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Error, expect

from tests.browser.conftest import Client, Open, sign_in
from tests.browser.test_flows import allow, to_consent
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory, Registered

Link = Callable[..., str]
OPENID = {"scope": "openid profile email", "nonce": "n"}


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_answer_is_posted_once(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
    script: bool,
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    to_consent(page, link(web_application, state="a b", response_mode="form_post", **OPENID), alice)
    allow(page)
    if not script:
        page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Back")).to_be_visible()
    assert client_server.last["state"] == "a b"
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200
    with suppress(Error):  # Chromium does not send a form again by itself
        page.go_back()
    assert len(client_server.calls) == 1


def test_a_fresh_proof_is_asked_for_on_the_way(
    page: Any, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(page, link(web_application), alice)
    page.goto(link(web_application, prompt="login", **OPENID))
    expect(page.get_by_role("heading", name="Type your password again")).to_be_visible()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    allow(page)
    expect(page).to_have_url(re.compile("/callback"))
    assert client_server.last["iss"]


def test_another_account_than_expected_leads_back_or_to_a_sign_in(
    page: Any, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    callback = driver.authorize(link(web_application, scope="openid"), alice.email, PASSWORD)
    token = driver.exchange(web_application, callback.parameters["code"]).json()["id_token"]
    other = PersonFactory()
    to_consent(page, link(web_application), other)
    page.goto(link(web_application, id_token_hint=token, **OPENID))
    expect(page.get_by_role("heading", name="expects another account")).to_be_visible()
    page.get_by_role("button", name="Use another account").click()
    sign_in(page, alice.email, PASSWORD)
    allow(page)
    expect(page).to_have_url(re.compile("/callback"))
    assert client_server.last["code"]
