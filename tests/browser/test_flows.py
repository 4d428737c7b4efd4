"""A person signs in to an application in Chromium, on each way, up to the request at the application's callback."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Error, Page, expect

from accounts.sessions.credential_changes import set_active
from oauth_bridge.models import Application
from tests.browser.conftest import APP, CALLBACK, Way, allow, confirm, flaws, press, sign_in
from tests.contract_coverage import contract
from tests.driver import Page as Html
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.pages import code_of, codes_on

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


@contract("3.4", "4.2/error", "7/callback", "D6.success")
def test_a_callback_that_goes_on_to_another_origin_is_not_stopped(way: Way) -> None:
    page = way.to_consent(redirect_uri=way.client.forward)
    page.get_by_role("button", name="Refuse").click()
    expect(page).to_have_url(re.compile(r"localhost:\d+/landing"))
    assert way.client.last["error"] == "access_denied"
    way.begin(page, redirect_uri=way.client.forward)
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(re.compile(r"localhost:\d+/landing"))
    assert way.client.landed == 2
    way.redeem(redirect_uri=way.client.forward)


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


# Other ways: over HTTP and without tabs: tests/contract/test_4_1_consent.py -------------------------------------------

CODE, FACTOR = "Enter the code from the mail", "Confirm that it is you"
SIGN_IN = "Sign in to continue to"
SWITCHED_OFF = re.compile("is switched off")


def names(way: Way, page: Page, heading: str = "") -> None:
    """The page, and the same page once more, name the application."""
    for _ in range(2):
        expect(page.get_by_role("main")).to_contain_text(way.application.row.name)
        if heading:
            expect(page.get_by_role("heading", name=heading)).to_be_visible()
        page.reload()


def fill_sign_up(page: Page) -> str:
    """Fill in the sign-up form that a sign-in page leads to; returns the address."""
    email: str = PersonFactory.build().email
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    return email


@pytest.mark.parametrize(("script", "after"), [(True, "reload"), (False, "post")])
def test_the_code_of_a_sign_up_is_typed_in_another_tab(way: Way, script: bool, after: str) -> None:
    first = way.begin(script=script)
    names(way, first)
    email = fill_sign_up(first)
    press(first, "Create the account")
    names(way, first, CODE)
    second = first.context.new_page()
    second.goto(f"{way.server.auth_url}/accounts/sign-in")
    names(way, second, CODE)
    confirm(second, "AAAAAA")
    expect(second.get_by_role("main")).to_contain_text(way.application.row.name)
    code = way.code(email)
    confirm(second, code)
    expect(second.get_by_role("button", name="Allow")).to_be_visible()
    if after == "reload":
        first.reload()
    else:
        confirm(first, code)
    way.ends(first)


@pytest.fixture
def codes(way: Way) -> list[str]:
    """Recovery codes of the person, who has an authenticator app as the second factor."""
    browser = way.driver.signed_in(way.person.email, PASSWORD)
    page = browser.open("/accounts/security/authenticator")
    (secret,) = codes_on(page)
    form = next(form for form in Html(page).forms if "code" in form.fields)
    codes = codes_on(browser.submit(form, code=code_of(secret)))
    assert len(codes) == 10
    return codes


def at_the_factor(way: Way) -> Page:
    page = way.begin()
    way.sign_in(page)
    names(way, page, FACTOR)
    return page


def type_code(page: Page, code: str) -> None:
    page.get_by_label("Code from your authenticator app").fill(code)
    press(page, "Continue")


def test_each_of_two_tabs_at_the_second_factor_leads_to_its_own_request(way: Way, codes: list[str]) -> None:
    first, other = at_the_factor(way), ApplicationFactory()
    type_code(first, "123456")
    expect(first.get_by_role("main")).to_contain_text(way.application.row.name)
    second = first.context.new_page()
    second.goto(way.driver.authorization_url(other))
    expect(second.get_by_role("main")).to_contain_text(other.row.name)
    type_code(second, codes[0])
    expect(second.get_by_role("heading", name=other.row.name)).to_be_visible()
    type_code(first, codes[1])
    way.ends(first)


def test_lost_cookies_at_the_factor_and_at_the_consent_lead_to_the_sign_in_of_the_request(
    way: Way, codes: list[str]
) -> None:
    page = at_the_factor(way)
    page.context.clear_cookies()
    type_code(page, codes[0])
    for code in codes[:2]:
        names(way, page, SIGN_IN)
        way.sign_in(page)
        type_code(page, code)
        expect(page.get_by_role("button", name="Allow")).to_be_visible()
        if code == codes[0]:
            page.context.clear_cookies()
            press(page, "Allow")
    way.ends(page)


def test_a_person_who_is_deactivated_at_the_consent_is_told_so(way: Way, mallory: Any) -> None:
    page = way.to_consent()
    set_active(way.person, False)
    press(page, "Allow")
    told = page.get_by_role("status").filter(has_text=SWITCHED_OFF)
    expect(told).to_be_visible()
    names(way, page, SIGN_IN)
    expect(told).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text(way.person.email)
    stranger = way.begin()
    expect(stranger.get_by_role("status").filter(has_text=SWITCHED_OFF)).to_have_count(0)
    sign_in(stranger, way.person.email, "wrong password of some length")
    expect(stranger.get_by_text(SWITCHED_OFF)).to_have_count(0)
    way.sign_in(page, mallory)
    way.ends(page)


# OpenID Connect: the posted answer, and signing out across sites ------------------------------------------------------

OPENID = {"scope": "openid profile email", "nonce": "n"}


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
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
    page.evaluate(
        """([action, token]) => {
          const form = Object.assign(document.createElement("form"), { method: "post", action });
          form.append(Object.assign(document.createElement("input"), { name: "id_token_hint", value: token }));
          document.body.append(form);
          form.submit();
        }""",
        [f"{way.server.auth_url}/oauth/logout", way.redeem()["id_token"]],
    )
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    is_signed_out(way, page)
