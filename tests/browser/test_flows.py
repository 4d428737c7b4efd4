"""A person signs in to an application in a real browser, up to the request at the application's callback."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CALLBACK, Way, allow, flaws
from tests.contract_coverage import contract
from tests.factories import PASSWORD

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
    assert flaws(page) == []
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
