"""Passkeys and second factors in a real browser, with Chromium's virtual authenticator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from accounts.models import User
from tests.browser.conftest import Client, Device, Open, confirm, mailed_code, press, sign_in
from tests.browser.test_pages import violations
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory, Registered
from tests.factors import code_of
from tests.server import Server

Link = Callable[..., str]
CALLBACK = re.compile(r"127\.0\.0\.1:\d+/callback")
OPTIONS = "**/accounts/sign-in/passkey*"


@pytest.fixture
def device(page: Page, driver: OAuthDriver) -> Device:
    return Device(page)


def add_passkey(page: Page, driver: OAuthDriver, *, as_second_factor: bool = True) -> None:
    page.goto(f"{driver.auth_url}/accounts/security")
    press(page, page.get_by_role("link", name="Add a passkey"))
    page.get_by_label("Name").fill("Work laptop")
    page.get_by_label("Also ask for a passkey after my password").set_checked(as_second_factor)
    press(page, page.get_by_role("button", name="Add the passkey"))


def sign_out(page: Page, driver: OAuthDriver, *, offers: bool = False) -> None:
    """`offers`: on the sign-in page of a request, the browser offers passkeys by itself, and the device confirms one.

    Never on the page after this one, which would sign in again.
    """
    condition = "!location.search.includes('pending')" if offers else "true"
    page.add_init_script(f"if ({condition}) PublicKeyCredential.isConditionalMediationAvailable = async () => false")
    page.goto(f"{driver.auth_url}/accounts/sign-out")
    press(page, page.get_by_role("main").get_by_role("button", name="Sign out"))


@pytest.fixture
def signed_in(page: Page, driver: OAuthDriver, alice: Any, device: Device) -> Page:
    """Alice has a passkey in the device, and is signed in."""
    page.goto(f"{driver.auth_url}/accounts/sign-in")
    sign_in(page, alice.email, PASSWORD)
    add_passkey(page, driver)
    return page


def test_a_passkey_is_added_renamed_and_removed(signed_in: Page, driver: OAuthDriver, device: Device) -> None:
    page = signed_in
    assert device.keys == 1
    expect(page.get_by_text("They are not shown again")).to_be_visible()
    page.goto(f"{driver.auth_url}/accounts/security")
    expect(page.locator("bdi", has_text="Work laptop")).to_be_visible()
    press(page, page.get_by_role("link", name="Rename"))
    page.get_by_label("Name").fill("Old laptop")
    press(page, page.get_by_role("button", name="Save"))
    expect(page.locator("bdi", has_text="Old laptop")).to_be_visible()
    press(page, page.get_by_role("link", name="Remove"))
    press(page, page.get_by_role("button", name="Remove"))
    expect(page.locator("bdi", has_text="Old laptop")).to_have_count(0)


def test_a_device_has_one_passkey_for_an_account(signed_in: Page, driver: OAuthDriver, device: Device) -> None:
    page = signed_in
    page.goto(f"{driver.auth_url}/accounts/security/passkeys/add")
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_role("status").filter(has_text="already has a passkey")).to_be_visible()
    assert device.keys == 1


def test_the_button_signs_in_and_the_request_goes_on(
    signed_in: Page, driver: OAuthDriver, device: Device, web_application: Registered, client_server: Client, link: Link
) -> None:
    page = signed_in
    sign_out(page, driver)
    page.goto(link(web_application, state="s"))
    page.get_by_role("button", name="Use a passkey").click()
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(CALLBACK)
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


def test_the_browser_offers_the_passkey_by_itself(
    signed_in: Page, driver: OAuthDriver, device: Device, web_application: Registered, link: Link
) -> None:
    page = signed_in
    sign_out(page, driver, offers=True)
    page.goto(link(web_application))
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


def test_a_button_that_is_pressed_at_once_uses_the_challenge_that_the_session_keeps(
    signed_in: Page, driver: OAuthDriver, device: Device, web_application: Registered, link: Link
) -> None:
    """The page asks for options as soon as it is open. Their answer, with its session, may come after the press."""
    page, asked = signed_in, []
    sign_out(page, driver, offers=True)

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route(OPTIONS, hold_the_first)
    with page.expect_request(OPTIONS):
        page.goto(link(web_application))
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_timeout(300)
    assert len(asked) == 1
    asked[0].continue_()
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


def test_a_passkey_that_is_unknown_here_keeps_the_request(
    signed_in: Page, driver: OAuthDriver, device: Device, web_application: Registered, link: Link, alice: Any
) -> None:
    page = signed_in
    sign_out(page, driver)
    alice.authenticator_set.filter(type="webauthn").delete()
    page.goto(link(web_application))
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page.get_by_text("This passkey is not known here")).to_be_visible()
    expect(page.get_by_role("heading", name="Sign in to continue")).to_be_visible()
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


def test_the_passkey_is_the_second_factor_after_a_password(
    signed_in: Page, driver: OAuthDriver, device: Device, web_application: Registered, link: Link, alice: Any
) -> None:
    page = signed_in
    sign_out(page, driver)
    page.goto(link(web_application))
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


def test_a_person_chooses_whether_a_passkey_is_the_second_factor_and_the_pages_say_so(
    page: Page, driver: OAuthDriver, device: Device, alice: Any
) -> None:
    sign_in_page = f"{driver.auth_url}/accounts/sign-in"
    page.goto(sign_in_page)
    sign_in(page, alice.email, PASSWORD)
    page.goto(f"{driver.auth_url}/accounts/security/passkeys/add")
    expect(page.get_by_text("your password alone still signs you in")).to_be_visible()
    assert violations(page) == []
    add_passkey(page, driver, as_second_factor=False)
    expect(page.get_by_text("Your password alone signs you in.")).to_be_visible()
    sign_out(page, driver)
    page.goto(sign_in_page)
    sign_in(page, alice.email, PASSWORD)
    expect(page).to_have_url(re.compile("/accounts/profile$"))

    page.goto(f"{driver.auth_url}/accounts/security")
    press(page, page.get_by_role("link", name="Remove Work laptop"))
    press(page, page.get_by_role("button", name="Remove"))
    add_passkey(page, driver)
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    sign_out(page, driver)
    page.goto(sign_in_page)
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_label("Recovery code")).to_be_visible()
    expect(page.get_by_text("authenticator app")).to_have_count(0)
    assert violations(page) == []
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page).to_have_url(re.compile("/accounts/profile$"))


@pytest.mark.parametrize("script", [True, False])
def test_recovery_codes_are_copied_printed_and_downloaded(
    open_browser: Open, driver: OAuthDriver, alice: Any, script: bool
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    page.goto(f"{driver.auth_url}/accounts/sign-in")
    sign_in(page, alice.email, PASSWORD)
    page.goto(f"{driver.auth_url}/accounts/security/authenticator")
    page.get_by_label("Code that the app shows").fill(code_of(page.locator(".steps code").inner_text()))
    press(page, page.get_by_role("button", name="Switch on"))
    codes = page.locator("#recovery-codes code").all_inner_texts()
    with page.expect_download() as file:
        page.get_by_role("button", name="Download as a file").click()
    assert set(codes) < set(file.value.path().read_text(encoding="utf-8").splitlines())
    for name in ("Copy the codes", "Print"):
        expect(page.get_by_role("button", name=name)).to_be_visible(visible=script)
    page.emulate_media(media="print")
    assert page.locator("#recovery-codes code").all_inner_texts() == codes
    expect(page.get_by_text(f"Recovery codes of {alice.email}")).to_be_visible()
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
        assert violations(page) == []


def test_without_script_the_password_is_enough(
    open_browser: Open, driver: OAuthDriver, web_application: Registered, link: Link, alice: Any
) -> None:
    page = open_browser(java_script_enabled=False).new_page()
    page.goto(link(web_application))
    expect(page.get_by_role("button", name="Use a passkey")).to_be_hidden()
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


# An account without a password ---------------------------------------------------------------------------------------


@pytest.fixture
def without_password(
    page: Page, device: Device, provider: Server, web_application: Registered, link: Link
) -> tuple[Page, str]:
    """A person has signed up with a passkey on the way to the application. The consent page, and the address."""
    email: str = PersonFactory.build().email
    page.goto(link(web_application, state="kept"))
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    press(page, page.get_by_role("button", name="Create an account with a passkey"))
    expect(page.get_by_role("main")).to_contain_text(web_application.row.name)
    confirm(page, mailed_code(provider, email))
    expect(page.get_by_role("heading", name="Add your passkey")).to_be_visible()
    page.reload()
    expect(page.get_by_role("main")).to_contain_text(web_application.row.name)
    assert violations(page) == []
    press(page, page.get_by_role("button", name="Add the passkey"))
    return page, email


def test_a_person_signs_up_with_a_passkey_and_the_request_goes_on(
    without_password: tuple[Page, str],
    driver: OAuthDriver,
    device: Device,
    web_application: Registered,
    client_server: Client,
    link: Link,
) -> None:
    page, email = without_password
    press(page, page.get_by_role("button", name="Allow"))
    expect(page).to_have_url(CALLBACK)
    assert client_server.last["state"] == "kept"
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200
    person = User.objects.get(email=email)
    assert person.email_verified_at
    assert not person.has_usable_password()

    sign_out(page, driver)
    page.goto(link(web_application))
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Continue to")).to_be_visible()


def test_the_last_passkey_without_a_password_can_not_be_removed(
    without_password: tuple[Page, str], driver: OAuthDriver, provider: Server
) -> None:
    page, email = without_password
    page.goto(f"{driver.auth_url}/accounts/security")
    press(page, page.get_by_role("link", name="Remove"))
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page.get_by_role("status")).to_contain_text("You have no password")
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)
    assert violations(page) == []

    # A password by mail.
    page.goto(f"{driver.auth_url}/accounts/security")
    press(page, page.get_by_role("link", name="Set a password by mail"))
    page.get_by_label("E-mail address").fill(email)
    press(page, page.get_by_role("button", name="Send the link"))
    page.goto(provider.reset_link())
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    press(page, page.get_by_role("button", name="Save the password"))
    # The passkey is the second factor of the new password.
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    expect(page.get_by_text("Your new password is saved")).to_be_visible()
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page).to_have_url(re.compile("/accounts/profile$"))
    page.goto(f"{driver.auth_url}/accounts/security")
    press(page, page.get_by_role("link", name="Remove"))
    press(page, page.get_by_role("button", name="Remove"))
    expect(page.get_by_text("The passkey is removed")).to_be_visible()


def test_a_change_asks_for_the_passkey_where_there_is_no_password(
    without_password: tuple[Page, str], driver: OAuthDriver
) -> None:
    page, _email = without_password
    page.goto(f"{driver.auth_url}/accounts/delete")
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    press(page, page.get_by_role("button", name="Use a passkey"))
    expect(page).to_have_url(re.compile("/accounts/delete$"))


def test_without_script_an_account_is_made_with_a_password(
    open_browser: Open, web_application: Registered, link: Link
) -> None:
    page = open_browser(java_script_enabled=False).new_page()
    page.goto(link(web_application))
    press(page, page.get_by_role("link", name="Create an account"))
    expect(page.get_by_role("button", name="Create the account")).to_be_visible()
    expect(page.get_by_role("button", name="Create an account with a passkey")).to_be_hidden()
