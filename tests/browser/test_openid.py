"""OpenID Connect in a real browser: the posted answer, a fresh proof, another account than expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urljoin

import pytest
from playwright.sync_api import Error, expect

from oauth_bridge.models import Application
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


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_the_question_of_a_sign_out_leads_back_to_the_application(
    open_browser: Open, web_application: Registered, client_server: Client, link: Link, alice: Any, script: bool
) -> None:
    """The page's `form-action` must allow the redirect, because Chromium applies it there too."""
    page = open_browser(java_script_enabled=script).new_page()
    after = f"{web_application.redirect_uri}?after=1"
    Application.objects.filter(pk=web_application.row.pk).update(post_logout_redirect_uris=after)
    to_consent(page, link(web_application), alice)
    sent = {"client_id": web_application.client_id, "post_logout_redirect_uri": after, "state": "a b"}
    page.goto(f"{urljoin(page.url, '/oauth/logout')}?{urlencode(sent)}")
    expect(page.get_by_role("heading", name="Sign out of")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("after=1&state=a%20b"))
    page.goto(link(web_application))
    expect(page.get_by_label("Password", exact=True)).to_be_visible()


def test_without_an_address_a_page_says_that_one_is_signed_out(
    page: Any, web_application: Registered, link: Link, alice: Any
) -> None:
    to_consent(page, link(web_application), alice)
    page.goto(urljoin(page.url, "/oauth/logout"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    page.get_by_role("link", name="Sign in").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_form_of_the_application_signs_out_with_the_cookies_of_the_person(
    page: Any, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    """A post of another site has no cookies in Chromium; the redirect after it has them."""
    to_consent(page, link(web_application, **OPENID), alice)
    allow(page)
    expect(page).to_have_url(re.compile("/callback"))
    token = driver.exchange(web_application, client_server.last["code"]).json()["id_token"]
    page.evaluate(
        """([action, token]) => {
          const form = Object.assign(document.createElement("form"), { method: "post", action });
          form.append(Object.assign(document.createElement("input"), { name: "id_token_hint", value: token }));
          document.body.append(form);
          form.submit();
        }""",
        [f"{driver.auth_url}/oauth/logout", token],
    )
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    page.goto(link(web_application))
    expect(page.get_by_label("Password", exact=True)).to_be_visible()
