"""In Chromium: a wrong code and a wrong address at sign-up, on the way to an application."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Client, Open, confirm, mailed_code, press
from tests.browser.test_pages import is_cut_off, violations
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory, Registered
from tests.server import Server


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_a_wrong_address_is_corrected_and_the_request_goes_on(
    open_browser: Open,
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    provider: Server,
    script: bool,
) -> None:
    page = open_browser(java_script_enabled=script).new_page()
    page.goto(driver.authorization_url(web_application, state="kept"))
    press(page, page.get_by_role("link", name="Create an account"))
    email: str = PersonFactory.build().email
    page.get_by_label("E-mail address").fill(email.replace("@", "-typo@"))
    page.get_by_label("Nickname").fill("Nia")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, page.get_by_role("button", name="Create the account"))
    confirm(page, "AAAAAA")
    expect(page.get_by_text("This is not the code we sent.").first).to_be_visible()
    if script:
        assert violations(page) == []
        assert not is_cut_off(page)
    press(page, page.get_by_role("button", name="Wrong address? Change it"))
    expect(page.get_by_role("main")).to_contain_text(web_application.row.name)
    expect(page.get_by_label("Nickname")).to_have_value("Nia")
    expect(page.get_by_label("E-mail address")).to_have_value(email.replace("@", "-typo@"))
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, page.get_by_role("button", name="Create the account"))
    expect(page.get_by_role("main")).to_contain_text(email)
    confirm(page, mailed_code(provider, email))
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(re.compile(r"127\.0\.0\.1:\d+/callback"))
    assert client_server.last["state"] == "kept"
