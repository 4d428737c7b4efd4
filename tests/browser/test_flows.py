"""A person signs in to an application in a real browser, up to the request at the application's callback."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import Locator, Page, expect

from oauth_bridge.storage import applications
from tests.browser.conftest import Client, Open, press, sign_in
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, Registered

Link = Callable[..., str]
CALLBACK = re.compile(r"127\.0\.0\.1:\d+/callback")


def the_allow_button(page: Page) -> Locator:
    """ "Allow", or "Continue" on the shorter page of a person who has allowed the application before."""
    return page.get_by_role("button", name=re.compile("Allow|Continue"))


def allow(page: Page) -> None:
    the_allow_button(page).click()


def to_consent(page: Page, link: str, alice: Any) -> None:
    page.goto(link)
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


@contract("1.1", "1.2", "1.3", "1.4", "4.2/code", "4.2/state")
@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_sign_in_and_allow(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
    script: bool,
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    to_consent(page, link(web_application, state="a b"), alice)
    allow(page)
    expect(page).to_have_url(CALLBACK)
    assert len(client_server.calls) == 1
    assert client_server.last["state"] == "a b"
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


@contract("3.4", "4.2/error", "7/callback")
@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_sign_in_and_refuse(
    open_browser: Open, web_application: Registered, client_server: Client, link: Link, alice: Any, script: bool
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    to_consent(page, link(web_application), alice)
    page.get_by_role("button", name="Refuse").click()
    expect(page).to_have_url(CALLBACK)
    assert client_server.last["error"] == "access_denied"


@contract("D23.page")
@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_who_may_not_use_the_application_is_led_back(
    open_browser: Open, web_application: Registered, client_server: Client, link: Link, alice: Any, script: bool
) -> None:
    applications.set_groups(web_application.row, [Group.objects.create(name=web_application.client_id)])
    page = open_browser(java_script_enabled=script).new_page()
    page.goto(link(web_application, state="a b"))
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("heading", level=1)).to_contain_text("is for certain people only")
    assert client_server.calls == []
    page.get_by_role("link", name=f"Go back to {web_application.row.name}").click()
    expect(page).to_have_url(CALLBACK)
    assert (client_server.last["error"], client_server.last["state"]) == ("access_denied", "a b")


@contract("1.2")
def test_with_the_keyboard_alone(
    page: Page, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    def walk_to(name: str) -> None:
        for _ in range(25):
            page.keyboard.press("Tab")
            focused = (
                "document.activeElement.matches(':focus-visible') && (document.activeElement.labels?.[0]?.innerText"
            )
            if (page.evaluate(f"{focused} || document.activeElement.innerText)") or "").strip() == name:
                return
        raise AssertionError(f"the keyboard does not reach {name}")

    page.goto(link(web_application))
    if page.evaluate("document.activeElement.type") != "email":
        walk_to("E-mail address")
    page.keyboard.type(alice.email)
    walk_to("Password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Allow")).to_be_visible()

    walk_to("Don't ask again for 180 days")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox")).to_be_checked()
    assert client_server.calls == [], "Enter in the box decides nothing"
    walk_to("Allow")
    page.keyboard.press("Enter")
    expect(page).to_have_url(CALLBACK)
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_a_double_click_ends_with_a_code_that_works(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
    script: bool,
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    to_consent(page, link(web_application), alice)
    posts.clear()
    page.get_by_role("button", name="Allow").dblclick()
    expect(page).to_have_url(CALLBACK)
    if script:
        assert len(posts) == 1
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


@contract("D8.leads-on", "D8.second-post")
def test_back_and_allow_again(
    page: Page, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(page, link(web_application), alice)
    allow(page)
    expect(page).to_have_url(CALLBACK)
    first = client_server.last["code"]
    page.go_back()
    allow(page)
    expect(page).to_have_url(CALLBACK)
    assert len(client_server.calls) == 2
    second = client_server.last["code"]
    assert second != first
    assert driver.exchange(web_application, second).status_code == 200


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
@pytest.mark.parametrize("is_signed_in", [True, False], ids=["signed in before", "signed in on the way"])
def test_after_the_code_was_redeemed_the_page_offers_nothing_any_more(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
    script: bool,
    is_signed_in: bool,
) -> None:
    context = open_browser(java_script_enabled=script)
    page = context.new_page()
    if is_signed_in:
        page.goto(f"{driver.auth_url}/accounts/sign-in")
        sign_in(page, alice.email, PASSWORD)
        page.goto(link(web_application))
    else:
        to_consent(page, link(web_application), alice)
    old = {decision: context.new_page() for decision in ("Allow", "Refuse")}
    for tab in old.values():
        tab.goto(page.url)
    allow(page)
    expect(page).to_have_url(CALLBACK)
    token = driver.exchange(web_application, client_server.last["code"]).json()["access_token"]

    page.go_back()
    is_used_up(page)
    page.reload()
    is_used_up(page)
    for decision, tab in old.items():
        tab.get_by_role("button", name=decision).click()
        is_used_up(tab)
    assert len(client_server.calls) == 1, "the application hears nothing more"
    assert driver.userinfo(token).status_code == 200

    homepage = page.get_by_role("link", name=f"Go to {web_application.row.name}")
    assert homepage.get_attribute("href") == web_application.row.homepage
    page.get_by_role("link", name="Go to your account").click()
    expect(page).to_have_url(re.compile("/accounts/profile$"))
    page.goto(link(web_application))
    allow(page)
    expect(page).to_have_url(CALLBACK)
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


def is_used_up(page: Page) -> None:
    expect(page.get_by_role("heading", name="You already signed in")).to_be_visible()
    assert page.locator("[name=decision]").count() == 0


@contract("D8.leads-on", "D5.state")
def test_two_tabs(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
) -> None:
    context = open_browser()
    one, two = context.new_page(), context.new_page()
    one.goto(link(web_application, state="one"))
    two.goto(link(web_application, state="two"))
    sign_in(one, alice.email, PASSWORD)
    sign_in(two, alice.email, PASSWORD)
    for tab, state in ((two, "two"), (one, "one")):
        allow(tab)
        expect(tab).to_have_url(CALLBACK)
        assert client_server.last["state"] == state
        assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


@contract("D7.remembered", "D7.trusted")
@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_a_remembered_consent_right_after_a_password(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    link: Link,
    alice: Any,
    script: bool,
) -> None:
    first = open_browser().new_page()
    to_consent(first, link(web_application), alice)
    first.get_by_label("Don't ask again").check()
    allow(first)
    expect(first).to_have_url(CALLBACK)

    second = open_browser(java_script_enabled=script).new_page()
    second.goto(link(web_application))
    sign_in(second, alice.email, PASSWORD)
    expect(second).to_have_url(CALLBACK)
    assert len(client_server.calls) == 2
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200
    second.goto(link(web_application))
    expect(second).to_have_url(CALLBACK)
    assert len(client_server.calls) == 3


@contract("D6.success")
@pytest.mark.parametrize("decision", ["Allow", "Refuse"])
def test_a_callback_that_goes_on_to_another_origin_is_not_stopped(
    page: Page, web_application: Registered, client_server: Client, link: Link, alice: Any, decision: str
) -> None:
    to_consent(page, link(web_application, redirect_uri=client_server.forward), alice)
    page.get_by_role("button", name=decision).click()
    expect(page).to_have_url(re.compile(r"localhost:\d+/landing"))
    assert client_server.landed == 1


@contract("D6.success")
def test_an_app_on_the_device_has_a_visible_way_on(page: Page, link: Link, committed: None, alice: Any) -> None:
    application = ApplicationFactory(redirect_uris="com.example.app:/callback")
    to_consent(page, link(application, state="s"), alice)
    allow(page)
    way_on = page.get_by_role("link", name="Continue")
    expect(way_on).to_be_visible()
    assert (way_on.get_attribute("href") or "").startswith("com.example.app:/callback?code=")


@contract("D8.leads-on")
def test_not_you_leads_to_another_account_and_back(
    page: Page, web_application: Registered, client_server: Client, link: Link, alice: Any, mallory: Any
) -> None:
    to_consent(page, link(web_application, state="kept"), alice)
    press(page, page.get_by_role("button", name=re.compile("another account")))
    if page.get_by_role("button", name="Sign out").count():
        press(page, page.get_by_role("button", name="Sign out"))
    sign_in(page, mallory.email, PASSWORD)
    expect(page.get_by_text(mallory.email).first).to_be_visible()
    allow(page)
    expect(page).to_have_url(CALLBACK)
    assert client_server.last["state"] == "kept"


@contract("D8.leads-on")
def test_an_old_sign_in_page_still_signs_in(
    open_browser: Open, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    """Its CSRF token is outdated; the person must not see a 403."""
    context = open_browser()
    page = context.new_page()
    page.goto(link(web_application, state="s"))
    context.clear_cookies()
    sign_in(page, alice.email, PASSWORD)
    if the_allow_button(page).count() == 0:
        sign_in(page, alice.email, PASSWORD)
    allow(page)
    expect(page).to_have_url(CALLBACK)
    assert client_server.last["state"] == "s"
