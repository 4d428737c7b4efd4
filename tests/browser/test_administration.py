"""The ways into the administration and out of it, in Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from accounts.models import User
from tests.browser.conftest import Device, press, sign_in
from tests.browser.test_pages import violations
from tests.conftest import Launch
from tests.factories import PASSWORD, PersonFactory
from tests.server import Server


@pytest.fixture
def server(launch: Launch) -> Server:
    """A server on which administrators need a second factor, as where AUTH_URL is https."""
    return launch(STAFF_SECOND_FACTOR="on")


def test_who_is_no_administrator_signs_in_with_another_account(page: Page, server: Server, alice: User) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    page.goto(f"{server.auth_url}/accounts/sign-in")
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)
    page.goto(f"{server.auth_url}/admin/")
    expect(page.get_by_role("heading", name="This account can't open the administration")).to_be_visible()
    assert violations(page) == []
    press(page, page.get_by_role("link", name="Back to your profile"))
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()
    page.goto(f"{server.auth_url}/admin/")
    press(page, page.get_by_role("button", name="Use another account"))
    sign_in(page, root.email, PASSWORD)
    expect(page.get_by_text("Administrators need a second factor")).to_be_visible()


@pytest.mark.parametrize("after_password", [True, False])
def test_an_administrator_adds_a_passkey_and_is_led_back(page: Page, server: Server, after_password: bool) -> None:
    device, root = Device(page), PersonFactory(is_staff=True, is_superuser=True)
    page.goto(f"{server.auth_url}/accounts/sign-in")
    sign_in(page, root.email, PASSWORD)
    press(page, page.get_by_role("link", name="Administration"))
    expect(page.get_by_text("Administrators need a second factor")).to_be_visible()
    assert violations(page) == []
    press(page, page.get_by_role("link", name="Add a passkey"))
    page.get_by_label("Name").fill("Work laptop")
    page.get_by_label("Also ask for a passkey after my password").set_checked(after_password)
    press(page, page.get_by_role("button", name="Add the passkey"))
    assert device.keys == 1
    if after_password:
        press(page, page.get_by_role("link", name="I have saved them"))
    expect(page).to_have_url(re.compile("/accounts/confirm/passkey"))
    page.get_by_role("main").get_by_role("button", name=re.compile("passkey", re.IGNORECASE)).click()
    expect(page).to_have_url(f"{server.auth_url}/admin/")
    expect(page.get_by_role("link", name="People").first).to_be_visible()
