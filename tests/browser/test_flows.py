"""A person signs in to an application in Chromium, up to the request at its callback. Without a browser: tests.unit."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Error, Page, expect

from oauth_bridge.models import Application
from tests.browser.conftest import APP, CALLBACK, POST, Way, allow, flaws
from tests.contract_coverage import contract
from tests.factories import PASSWORD

# Straight on ----------------------------------------------------------------------------------------------------------

SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
# The caption of the element that has the focus, where the focus is visible.
FOCUSED = """() => {
    const { activeElement } = document;
    return activeElement.matches(":focus-visible") && (activeElement.labels?.[0] || activeElement).innerText.trim();
}"""


@contract("1.1", "1.2", "1.3", "1.4", "4.2/code", "4.2/state", "D8.leads-on", "D8.second-post")
@SCRIPT
def test_sign_in_and_allow_and_back_and_allow_again(way: Way, script: bool) -> None:
    page = way.to_consent(script=script, state="a b")
    allow(page)
    assert [call["state"] for call in way.client.calls] == ["a b"]
    page.go_back()
    allow(page)
    first, second = (call["code"] for call in way.client.calls)
    assert first != second
    token = way.redeem()["access_token"]
    page.go_back()
    expect(page.get_by_role("heading", name="You already signed in")).to_be_visible()
    assert page.locator("[name=decision]").count() == 0
    assert not script or flaws(page) == []  # axe is a script
    assert len(way.client.calls) == 2, "the application hears nothing more"
    assert way.driver.userinfo(token).status_code == 200


@contract("1.2")
def test_with_the_keyboard_alone(way: Way) -> None:
    def walk_to(name: str) -> None:
        for _ in range(25):
            page.keyboard.press("Tab")
            if page.evaluate(FOCUSED) == name:
                return
        raise AssertionError(f"the keyboard does not reach {name}")

    page = way.begin()
    if page.evaluate("document.activeElement.type") != "email":
        walk_to("E-mail address")
    page.keyboard.type(way.person.email)
    walk_to("Password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Allow")).to_be_visible()

    walk_to("Don't ask again for 180 days")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox")).to_be_checked()
    assert way.client.calls == [], "Enter in the box decides nothing"
    walk_to("Allow")
    page.keyboard.press("Enter")
    expect(page).to_have_url(CALLBACK)
    way.redeem()


@SCRIPT
def test_a_double_click_ends_with_a_code_that_works(way: Way, script: bool) -> None:
    page = way.to_consent(script=script)
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.get_by_role("button", name="Allow").dblclick()
    expect(page).to_have_url(CALLBACK)
    if script:
        assert len(posts) == 1
    way.redeem()


@contract("D7.remembered", "D7.trusted")
def test_a_remembered_consent_right_after_a_password(way: Way) -> None:
    first = way.to_consent()
    first.get_by_label("Don't ask again").check()
    allow(first)
    second = way.begin()
    way.sign_in(second)
    expect(second).to_have_url(CALLBACK)
    assert len(way.client.calls) == 2
    way.redeem()
    way.begin(second)
    expect(second).to_have_url(CALLBACK)
    assert len(way.client.calls) == 3


# OpenID Connect: the posted answer, and signing out across sites ------------------------------------------------------

OPENID = {"scope": "openid profile email", "nonce": "n"}


@SCRIPT
def test_the_answer_is_posted_once(way: Way, script: bool) -> None:
    page = way.to_consent(script=script, state="a b", response_mode="form_post", **OPENID)
    page.get_by_role("button", name="Allow").click()
    if not script:
        page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Back")).to_be_visible()
    assert way.client.last["state"] == "a b"
    way.redeem()
    with suppress(Error):  # Chromium does not send a form again by itself
        page.go_back()
    assert len(way.client.calls) == 1


def test_an_application_leads_on_to_an_app_after_each_form(way: Way) -> None:
    """The browser may follow any redirect of the application after consent, a posted answer and a sign-out."""
    page = way.to_consent()
    for address in way.client.to_app:
        way.begin(page, redirect_uri=address)
        goes_on(page, "Allow", "Continue")
        page.reload()
        goes_on(page, "Allow", "Continue")  # the page answers again, until a code is redeemed
        way.redeem(redirect_uri=address)
        way.begin(page, redirect_uri=address, response_mode="form_post", **OPENID)
        goes_on(page, "Allow", "Continue")
        way.redeem(redirect_uri=address)
    Application.objects.filter(pk=way.application.row.pk).update(post_logout_redirect_uris=address)
    sent = {"client_id": way.application.client_id, "post_logout_redirect_uri": address}
    page.goto(f"{way.server.auth_url}/oauth/logout?{urlencode(sent)}")
    goes_on(page, "Sign out")
    is_signed_out(way, page)


def goes_on(page: Page, *buttons: str) -> None:
    """One of the buttons leads through the application's server to its app. `open_browser` hears CSP violations."""
    with page.expect_event("requestfailed", lambda request: request.url.startswith(APP)):
        page.get_by_role("button", name=re.compile("|".join(buttons))).click()


def is_signed_out(way: Way, page: Page) -> None:
    way.begin(page)
    expect(page.get_by_label("Password", exact=True)).to_be_visible()


def test_a_form_of_the_application_signs_out_with_the_cookies_of_the_person(way: Way) -> None:
    """A post of another site has no cookies in Chromium; the redirect after it has them."""
    page = way.to_consent(**OPENID)
    allow(page)
    page.evaluate(POST, f"{way.server.auth_url}/oauth/logout?id_token_hint={way.redeem()['id_token']}")
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    is_signed_out(way, page)
