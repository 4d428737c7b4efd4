"""The ways into the administration and out of it, in Chromium."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from accounts.models import User
from tests.browser.conftest import Device, flaws, press, sign_in
from tests.conftest import Launch
from tests.factories import PASSWORD, PersonFactory


def test_an_administrator_gets_in_with_a_second_factor_that_is_added_on_the_way_and_nobody_else(
    launch: Launch, page: Page, alice: User
) -> None:
    """On a server on which administrators need a second factor, as where AUTH_URL is https."""
    server, root = launch(STAFF_SECOND_FACTOR="on"), PersonFactory(is_staff=True, is_superuser=True)
    page.goto(f"{server.auth_url}/accounts/sign-in")
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)
    page.goto(f"{server.auth_url}/admin/")
    expect(page.get_by_role("heading", name="This account can't open the administration")).to_be_visible()
    assert flaws(page) == []
    press(page, "Back to your profile")
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()
    page.goto(f"{server.auth_url}/admin/")
    press(page, page.get_by_role("button", name="Use another account"))

    device = Device(page)
    sign_in(page, root.email, PASSWORD)
    expect(page.get_by_text("Administrators need a second factor")).to_be_visible()
    assert flaws(page) == []
    press(page, "Add a passkey")
    page.get_by_label("Name").fill("Work laptop")
    page.get_by_label("Also ask for a passkey after my password").check()
    press(page, "Add the passkey")
    assert device.keys == 1
    press(page, page.get_by_role("link", name="I have saved them"))
    expect(page).to_have_url(re.compile("/accounts/confirm/passkey"))
    page.get_by_role("main").get_by_role("button", name=re.compile("passkey", re.IGNORECASE)).click()
    expect(page).to_have_url(f"{server.auth_url}/admin/")
    expect(page.get_by_role("link", name="People").first).to_be_visible()
