"""The consent page on each screen: both buttons in view, equal, never pressed by accident; and the pages after it."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from accounts.models import NICKNAME_MAX_LENGTH
from oauth_bridge.consent import consents
from oauth_bridge.models import Application
from oauth_bridge.models.application import NAME_MAX_LENGTH
from tests.browser.conftest import CALLBACK, Way, violations
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory, Registered

SIZES = [(1280, 800), (1366, 657), (390, 664), (320, 640)]
LONG_NAME = "Wirtschaftsprüfungsgesellschaftsverwaltungsanwendung Nord-West Mandantenportal Q"
DETAILS = {
    "operator": "شركة القراءة المحدودة",
    "policy_uri": "https://client.example/privacy",
    "tos_uri": "https://client.example/terms",
}
# The decision buttons that are partly outside the window, or covered by another element.
OUT_OF_VIEW = """() => [...document.querySelectorAll("[name=decision]")].filter((button) => {
    const { top, bottom, left, right } = button.getBoundingClientRect();
    const inside = top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth;
    return !inside || !button.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
  }).map((button) => button.value)"""
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
LOOK = "button => ['backgroundColor', 'color', 'borderColor', 'fontWeight'].map(n => getComputedStyle(button)[n])"


def reload_as_allowed_before(page: Page, way: Way) -> None:
    row = way.application.row
    ConsentFactory(user=way.person, application=row, fingerprint=consents.fingerprint(row), expires_at=timezone.now())
    page.reload()
    expect(page.get_by_role("heading", name=re.compile("^Continue to"))).to_be_visible()


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_both_buttons_are_in_view_at_every_size(way: Way, application: Registered, script: bool) -> None:
    assert len(LONG_NAME) == NAME_MAX_LENGTH
    details = {**DETAILS, "homepage": "https://mandanten.nord-west.example/", "operator": LONG_NAME}
    long_application = ApplicationFactory(name=LONG_NAME, redirect_uris="https://client.example/cb", **details)
    people = [PersonFactory(nickname="Ada Lovelace"), PersonFactory(nickname="W" * NICKNAME_MAX_LENGTH)]
    for way.application, way.person in zip((application, long_application), people, strict=True):
        page = way.begin(script=script)
        assert page.evaluate(SMALL_TARGETS) == []
        way.to_consent(page)
        for is_shorter in (False, True):
            if is_shorter:
                reload_as_allowed_before(page, way)
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                assert page.evaluate(OUT_OF_VIEW) == [], (way.application.row.name, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate(SMALL_TARGETS) == []
            if way.application is application:
                page.set_viewport_size({"width": 320, "height": 568})
                below = page.evaluate("innerHeight - document.querySelector('.facts').getBoundingClientRect().bottom")
                assert below >= 0, "who asks and what it receives are on the first screen"
                assert page.evaluate(COVERED) == []
        page.close()


def test_the_two_buttons_are_equal_no_button_is_filled_and_axe_finds_nothing_in_forced_colours(way: Way) -> None:
    Application.objects.filter(pk=way.application.row.pk).update(**DETAILS)
    page = way.to_consent()
    for is_shorter in (False, True):
        if is_shorter:
            way.application.row.refresh_from_db()
            reload_as_allowed_before(page, way)
        refuse, allowing = (page.locator(f"[name=decision][value={value}]") for value in ("refuse", "allow"))
        sizes = [button.evaluate("each => [each.offsetWidth, each.offsetHeight]") for button in (refuse, allowing)]
        assert sizes[0] == sizes[1]
        assert refuse.evaluate(LOOK) == allowing.evaluate(LOOK)
        assert page.locator(".button:not(.outlined)").count() == 0
        for look in ({"forced_colors": "active", "contrast": "no-preference"}, {"contrast": "more"}):
            page.emulate_media(**look, reduced_motion="reduce")
            assert violations(page) == [], look


def test_enter_allows_nothing_by_accident(way: Way) -> None:
    """Without script, Enter in the box presses the first button of the form."""
    page = way.to_consent(script=False)
    page.keyboard.press("Enter")
    assert way.client.calls == []
    page.get_by_role("checkbox").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(CALLBACK)
    assert [call.get("error") for call in way.client.calls] == ["access_denied"]


def test_what_the_developer_needs_can_be_copied(way: Way) -> None:
    page = way.page(permissions=["clipboard-read", "clipboard-write"])
    way.begin(page, redirect_uri="https://client.example/wrong")
    page.get_by_role("button", name="Copy this").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert re.search(r"(?s)is not one .*https://client\.example/wrong.*Reference\s+[0-9A-Z]{8}$", copied)


def in_german(page: Page) -> None:
    page.locator(".languages summary").click()
    page.get_by_role("button", name="Deutsch").click()
    expect(page.locator("html")).to_have_attribute("lang", "de")


def test_another_language_keeps_what_was_typed_and_the_tick_and_no_secret(way: Way) -> None:
    page = way.to_consent()
    page.get_by_role("checkbox").check()
    in_german(page)
    expect(page.get_by_role("checkbox")).to_be_checked()

    page = way.page()
    page.goto(f"{way.server.auth_url}/accounts/sign-up")
    typed = {"nickname": "Ada", "email": "ada@example.com", "password1": "never kept anywhere"}
    for name, value in typed.items():
        page.locator(f"[name={name}]").fill(value)
    page.locator("[data-reveal]").first.click()
    in_german(page)
    for name, value in (typed | {"password1": ""}).items():
        expect(page.locator(f"[name={name}]")).to_have_value(value)
    assert page.evaluate("sessionStorage.length") == 0
