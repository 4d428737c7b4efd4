"""Passkeys and recovery codes in a real browser, with Chromium's virtual authenticator.

What the pages say and which factors are asked for: tests/unit/test_accounts_passkeys.py.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Way, add_device, allow, flaws, mailed_code, press
from tests.factories import PersonFactory
from tests.pages import code_of

OPTIONS = "**/accounts/sign-in/passkey*"


def sign_out(page: Page, way: Way, *, offers: bool = False) -> None:
    """With `offers`, the browser offers passkeys by itself on the sign-in page of a request.

    It never does on other sign-in pages, where the device would confirm one at once.
    """
    condition = "!location.search.includes('pending')" if offers else "true"
    page.add_init_script(f"if ({condition}) PublicKeyCredential.isConditionalMediationAvailable = async () => false")
    page.goto(f"{way.server.auth_url}/accounts/sign-out")
    press(page, "Sign out")


@pytest.fixture
def signed_in(page: Page, way: Way) -> Page:
    """The person is signed in, and has a passkey in the device, also as the second factor."""
    add_device(page)
    way.sign_in(page, path="/accounts/sign-in")
    page.goto(f"{way.server.auth_url}/accounts/security")
    press(page, "Add a passkey")
    page.get_by_label("Name").fill("Work laptop")
    press(page, "Add the passkey")
    return page


def test_the_button_signs_in_and_the_request_goes_on(signed_in: Page, way: Way) -> None:
    """Without a password, after one, and not with a passkey that is unknown here, which keeps the request."""
    page = signed_in
    expect(page.get_by_text("They are not shown again")).to_be_visible()
    page.goto(f"{way.server.auth_url}/accounts/security/passkeys/add")
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_role("status").filter(has_text="already has a passkey")).to_be_visible()

    sign_out(page, way)
    way.begin(page)
    page.get_by_role("button", name="Use a passkey").click()
    allow(page)
    way.redeem()

    sign_out(page, way)
    way.begin(page)
    way.sign_in(page)
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.locator("[name=decision]")).to_have_count(2)

    sign_out(page, way)
    way.person.authenticator_set.filter(type="webauthn").delete()
    way.begin(page)
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page.get_by_text("This passkey is not known here")).to_be_visible()
    expect(page.get_by_role("heading", name="Sign in to continue")).to_be_visible()
    way.sign_in(page)
    expect(page.locator("[name=decision]")).to_have_count(2)


def test_a_button_that_is_pressed_at_once_uses_the_challenge_that_the_session_keeps(signed_in: Page, way: Way) -> None:
    """The page asks for options as soon as it is open. Their answer, with its session, may come after the press.

    Without a press, the browser offers the passkey by itself.
    """
    page, asked = signed_in, []
    sign_out(page, way, offers=True)
    way.begin(page)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    sign_out(page, way, offers=True)

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route(OPTIONS, hold_the_first)
    with page.expect_request(OPTIONS):
        way.begin(page)
    page.get_by_role("button", name="Use a passkey").click()
    page.evaluate("fetch('/static/css/tokens.css').then(() => 0)")  # what the press asked for was asked for before this
    assert len(asked) == 1
    asked[0].continue_()
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


@pytest.mark.parametrize("script", [True, False])
def test_recovery_codes_are_copied_and_printed(way: Way, script: bool) -> None:
    page = way.page(java_script_enabled=script)
    way.sign_in(page, path="/accounts/sign-in")
    page.goto(f"{way.server.auth_url}/accounts/security/authenticator")
    page.get_by_label("Code that the app shows").fill(code_of(page.locator(".steps code").inner_text()))
    press(page, "Switch on")
    codes = page.locator("#recovery-codes code").all_inner_texts()
    for name in ("Copy the codes", "Print"):
        expect(page.get_by_role("button", name=name)).to_be_visible(visible=script)
    page.emulate_media(media="print")
    assert page.locator("#recovery-codes code").all_inner_texts() == codes
    expect(page.get_by_text(f"Recovery codes of {way.person.email}")).to_be_visible()
    for hidden in (".masthead", ".subnav", ".actions >> nth=0"):
        expect(page.locator(hidden)).to_be_hidden()
    page.emulate_media(media="screen")
    if script:
        page.evaluate("window.print = () => { document.title = 'printed' }")
        page.get_by_role("button", name="Print").click()
        expect(page).to_have_title("printed")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the codes").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()").split() == codes


def test_without_script_the_password_is_enough(way: Way) -> None:
    page = way.begin(script=False)
    expect(page.get_by_role("button", name="Use a passkey")).to_be_hidden()
    press(page, page.get_by_role("link", name="Create an account"))
    expect(page.get_by_role("button", name="Create the account")).to_be_visible()
    expect(page.get_by_role("button", name="Create an account with a passkey")).to_be_hidden()
    way.to_consent(page)


def test_a_person_signs_up_with_a_passkey_and_the_request_goes_on(way: Way, page: Page) -> None:
    """The account has no password, so the next sign-in asks for the passkey. Recovery codes are offered."""
    add_device(page)
    email: str = PersonFactory.build().email
    way.begin(page)
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    press(page, "Create an account with a passkey")
    expect(page.get_by_role("main")).to_contain_text(way.application.row.name)
    page.get_by_label("Code from the mail").fill(mailed_code(way.server, email))
    press(page, "Confirm the address")
    expect(page.get_by_role("heading", name="Add your passkey")).to_be_visible()
    assert flaws(page) == []
    press(page, "Add the passkey")
    expect(page.get_by_role("heading", name="Make recovery codes")).to_be_visible()
    assert flaws(page) == []
    press(page, "Continue without")
    allow(page)

    sign_out(page, way)
    way.begin(page)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Continue to")).to_be_visible()
