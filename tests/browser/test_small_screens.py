"""Small screens and pointers: what is agreed to is readable, targets can be hit. The switcher keeps what was typed."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_consent import allowed_once, to_consent
from tests.driver import OAuthDriver
from tests.factories import Registered

# WCAG 2.5.8: a target is at least 24 by 24 CSS pixels.
SMALL_TARGETS = """() => [...document.querySelectorAll("a, button, summary, input:not([type=hidden])")]
  .filter((each) => each.checkVisibility() && !each.matches(".skip, .unseen"))
  .map((each) => each.matches("[type=checkbox]") ? each.labels[0] : each)
  .filter((target) => Math.min(target.getBoundingClientRect().width, target.getBoundingClientRect().height) < 24)
  .map((target) => target.innerText || target.outerHTML)"""
# The text of each element that the decision covers after it was scrolled into view.
COVERED = """() => [...document.querySelectorAll("h1, .facts dd, .terms li, .account dd")].filter((each) => {
    each.scrollIntoView({ block: "center" });
    const { top, bottom, left, right } = each.getBoundingClientRect();
    const shown = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return top < 0 || bottom > innerHeight || !(each.contains(shown) || shown?.contains(each));
  }).map((each) => each.innerText)"""


@pytest.mark.parametrize("again", [False, True], ids=["the full page", "the shorter page"])
@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_on_a_small_screen_nothing_covers_what_is_agreed_to(
    open_browser: Open, driver: OAuthDriver, application: Registered, alice: Any, again: bool, script: bool
) -> None:
    if again:
        allowed_once(alice, application)
    page = open_browser(viewport={"width": 320, "height": 568}, java_script_enabled=script).new_page()
    to_consent(page, driver, application, alice)
    height = page.evaluate("innerHeight - document.querySelector('.facts').getBoundingClientRect().bottom")
    assert height >= 0, "who asks and what it receives are on the first screen"
    tray = page.locator(".tray").evaluate("tray => getComputedStyle(tray).position")
    assert tray == "static"
    assert page.evaluate(COVERED) == []


@pytest.mark.parametrize("width", [320, 1280])
def test_every_target_can_be_hit(
    open_browser: Open, driver: OAuthDriver, application: Registered, alice: Any, width: int
) -> None:
    page = open_browser(viewport={"width": width, "height": 800}).new_page()
    page.goto(driver.authorization_url(application))
    found = {"sign-in": page.evaluate(SMALL_TARGETS)}
    to_consent(page, driver, application, alice)
    page.locator(".languages summary").click()
    found["consent"] = page.evaluate(SMALL_TARGETS)
    allowed_once(alice, application)
    page.reload()
    found["shorter consent"] = page.evaluate(SMALL_TARGETS)
    assert found == {"sign-in": [], "consent": [], "shorter consent": []}


def in_german(page: Page) -> None:
    page.locator(".languages summary").click()
    page.get_by_role("button", name="Deutsch").click()
    expect(page.locator("html")).to_have_attribute("lang", "de")


def test_another_language_keeps_what_was_typed_and_no_secret(page: Page, driver: OAuthDriver) -> None:
    page.goto(f"{driver.auth_url}/accounts/sign-up")
    page.locator("[name=nickname]").fill("Ada")
    page.locator("[name=email]").fill("ada@example.com")
    page.locator("[name=password1]").fill("never kept anywhere")
    page.locator("[data-reveal]").first.click()
    kept = page.evaluate(
        """() => new Promise((resolve) => addEventListener("submit", (event) => {
            event.preventDefault();
            setTimeout(() => resolve(JSON.stringify({ ...sessionStorage })), 0);
        }, { once: true }) || document.querySelector(".languages button").click())"""
    )
    page.locator(".languages form").evaluate("form => delete form.dataset.sent")
    assert "ada@example.com" in kept
    assert "never kept" not in kept
    in_german(page)
    assert page.locator("[name=nickname]").input_value() == "Ada"
    assert page.locator("[name=email]").input_value() == "ada@example.com"
    assert page.locator("[name=password1]").input_value() == ""
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    assert page.evaluate("sessionStorage.length") == 0


def test_another_language_keeps_the_tick_of_the_consent_page(
    page: Page, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    to_consent(page, driver, application, alice)
    page.get_by_role("checkbox").check()
    in_german(page)
    expect(page.get_by_role("checkbox")).to_be_checked()
