"""The consent page on one screen: both buttons in view, equal, and never pressed by accident."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from accounts.models import NICKNAME_MAX_LENGTH
from oauth_bridge.consent import remembered
from oauth_bridge.models import NAME_MAX_LENGTH, Application, AuthorizationCode
from tests.browser.conftest import Client, Open, sign_in
from tests.browser.test_pages import violations
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, ConsentFactory, PersonFactory, Registered

SIZES = [(1280, 800), (1366, 657), (390, 664), (320, 640)]
LONG_NAME = "Wirtschaftsprüfungsgesellschaftsverwaltungsanwendung Nord-West Mandantenportal Q"


DETAILS = {
    "operator": "شركة القراءة المحدودة",
    "policy_uri": "https://client.example/privacy",
    "tos_uri": "https://client.example/terms",
}


@pytest.fixture
def long_application(committed: None) -> Registered:
    assert len(LONG_NAME) == NAME_MAX_LENGTH
    registered: Registered = ApplicationFactory(
        name=LONG_NAME,
        homepage="https://mandanten.nord-west.example/",
        redirect_uris="https://client.example/cb",
        **{**DETAILS, "operator": LONG_NAME},
    )
    return registered


def allowed_once(person: Any, application: Registered) -> None:
    fingerprint = remembered.fingerprint(application.row)
    ConsentFactory(user=person, application=application.row, fingerprint=fingerprint, expires_at=timezone.now())


def to_consent(page: Page, driver: OAuthDriver, application: Registered, person: Any) -> None:
    page.goto(driver.authorization_url(application))
    sign_in(page, person.email, PASSWORD)
    expect(page.locator("[name=decision]")).to_have_count(2)


def cut_off(page: Page) -> list[str]:
    """The decision buttons that are partly outside the window, or covered by another element."""
    found: list[str] = page.locator("[name=decision]").evaluate_all(
        """buttons => buttons.filter(button => {
            const { top, bottom, left, right } = button.getBoundingClientRect();
            const inside = top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth;
            return !inside || !button.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
        }).map(button => button.value)"""
    )
    return found


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_both_buttons_are_in_view_at_every_size(
    open_browser: Open, driver: OAuthDriver, application: Registered, long_application: Registered, script: bool
) -> None:
    people = [PersonFactory(nickname="Ada Lovelace"), PersonFactory(nickname="W" * NICKNAME_MAX_LENGTH)]
    for asking, person in zip((application, long_application), people, strict=True):
        page = open_browser(java_script_enabled=script).new_page()
        to_consent(page, driver, asking, person)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert cut_off(page) == [], (asking.row.name, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()


def test_the_two_buttons_are_equal_and_no_button_is_filled(
    page: Page, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    to_consent(page, driver, application, alice)
    for again in (False, True):
        if again:
            allowed_once(alice, application)
            page.reload()
            expect(page.get_by_role("heading", name=re.compile("^Continue to"))).to_be_visible()
        refuse, allow = (page.locator(f"[name=decision][value={value}]") for value in ("refuse", "allow"))
        boxes = [button.bounding_box() or {} for button in (refuse, allow)]
        assert boxes[0]["width"] == pytest.approx(boxes[1]["width"])
        assert boxes[0]["height"] == pytest.approx(boxes[1]["height"])
        style = (
            "button => ['backgroundColor', 'color', 'borderColor', 'fontWeight'].map(n => getComputedStyle(button)[n])"
        )
        assert refuse.evaluate(style) == allow.evaluate(style)
        assert page.locator(".button:not(.outlined)").count() == 0


@pytest.mark.parametrize(
    "options",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"forced_colors": "active"}, {"contrast": "more"}],
    ids=["light", "dark", "forced colours", "more contrast"],
)
def test_axe_finds_nothing_on_the_shorter_page_and_with_everything_open(
    open_browser: Open, driver: OAuthDriver, application: Registered, alice: Any, options: dict[str, Any]
) -> None:
    page = open_browser(**options).new_page()
    Application.objects.filter(pk=application.row.pk).update(**DETAILS)
    to_consent(page, driver, application, alice)
    page.locator("main summary").click()
    assert violations(page) == []
    allowed_once(alice, application)
    page.reload()
    for summary in page.locator("summary").all():
        summary.click()
    assert violations(page) == []


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_enter_allows_nothing_by_accident(
    open_browser: Open,
    web_application: Registered,
    driver: OAuthDriver,
    client_server: Client,
    alice: Any,
    script: bool,
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    to_consent(page, driver, web_application, alice)
    page.keyboard.press("Enter")
    assert client_server.calls == []
    page.get_by_role("checkbox").focus()
    page.keyboard.press("Enter")
    if script:
        page.wait_for_timeout(300)
        assert client_server.calls == []
    else:
        expect(page).to_have_url(re.compile(rf"^{re.escape(client_server.callback)}\?"))
        assert [call.get("error") for call in client_server.calls] == ["access_denied"]


def test_your_applications_open_beside_the_request(
    page: Page, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    to_consent(page, driver, application, alice)
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Your applications").click()
    expect(popup.value).to_have_url(re.compile("/accounts/applications$"))
    expect(page.locator("[name=decision]")).to_have_count(2)


def test_policy_and_terms_open_beside_the_request_and_learn_nothing_of_it(
    page: Page, driver: OAuthDriver, long_application: Registered, client_server: Client, alice: Any
) -> None:
    address = f"http://127.0.0.1:{client_server.port}/privacy"
    Application.objects.filter(pk=long_application.row.pk).update(policy_uri=address)
    to_consent(page, driver, long_application, alice)
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Privacy policy of").click()
    expect(popup.value).to_have_url(address)
    assert popup.value.evaluate("[document.referrer, window.opener]") == ["", None]
    expect(page.locator("[name=decision]")).to_have_count(2)


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], ids=["light", "dark"])
def test_axe_finds_nothing_on_the_pages_that_end_a_sign_in(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    application: Registered,
    alice: Any,
    options: dict[str, Any],
) -> None:
    page = open_browser(**options, viewport={"width": 320, "height": 640}).new_page()
    found = {}
    to_consent(page, driver, web_application, alice)
    attempt = page.url
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(re.compile(r"/callback\?code="))
    AuthorizationCode.objects.filter(application=web_application.row).update(redeemed_at=timezone.now())
    page.goto(attempt)
    expect(page.get_by_role("heading", name="You already signed in")).to_be_visible()
    found["used up"] = violations(page)
    page.goto(driver.authorization_url(ApplicationFactory(redirect_uris="com.example.app:/callback")))
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("heading", name="You refused")).to_be_visible()
    found["refused"] = violations(page)
    page.goto(driver.authorization_url(application, redirect_uri=f"{application.redirect_uri}/"))
    expect(page.locator("mark")).to_have_text("/")
    found["error"] = violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert found == {"refused": [], "error": [], "used up": []}


def test_what_the_developer_needs_can_be_copied(
    open_browser: Open, driver: OAuthDriver, application: Registered
) -> None:
    context = open_browser(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(driver.authorization_url(application, redirect_uri="https://client.example/wrong"))
    page.get_by_role("button", name="Copy this").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "The redirect_uri is not one that is registered" in copied
    assert "https://client.example/wrong" in copied
    assert re.search(r"Reference\s+[0-9A-Z]{8}$", copied)
