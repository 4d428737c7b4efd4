"""The rules of a new password in Chromium, with and without script."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open, press
from tests.browser.test_pages import violations
from tests.driver import OAuthDriver

RULES = "#id_password1_helptext"


def test_the_rules_of_a_new_password_answer_while_it_is_typed(open_browser: Open, driver: OAuthDriver) -> None:
    page = open_browser().new_page()
    page.goto(f"{driver.auth_url}/accounts/sign-up")
    password, rules, status = page.get_by_label("Password", exact=True), page.locator(RULES), page.get_by_role("status")
    expect(rules.get_by_role("listitem")).to_have_count(3)
    expect(rules.locator(".met, .broken")).to_have_count(0)
    page.get_by_label("Nickname").fill("Nordwind")
    password.press_sequentially("eleven kites")
    expect(rules).to_contain_text("Characters missing: 3")
    expect(status).to_have_text("Characters missing: 3")
    password.press_sequentially(" up")
    expect(rules.locator(".met")).to_contain_text("Long enough")
    expect(status).to_have_text("Long enough")
    password.fill("nordwindnordwind")
    expect(rules.locator(".broken")).to_contain_text("More than your name")
    expect(status).to_contain_text("More than your name")
    assert violations(page) == []
    password.fill("")
    expect(rules.locator(".met, .broken")).to_have_count(0)


def test_without_script_the_rules_stand_below_the_field_and_the_error_names_one(
    open_browser: Open, driver: OAuthDriver
) -> None:
    page = open_browser(java_script_enabled=False).new_page()
    page.goto(f"{driver.auth_url}/accounts/sign-up")
    page.get_by_label("E-mail address").fill("nia@example.org")
    page.get_by_label("Password", exact=True).fill("iloveyouforever1")
    press(page, page.get_by_role("button", name="Create the account"))
    field, rules = page.get_by_label("Password", exact=True).bounding_box(), page.locator(RULES).bounding_box()
    assert field
    assert rules
    assert rules["y"] >= field["y"] + field["height"]
    expect(page.locator(".field .error p")).to_have_count(1)
    expect(page.locator(".field .error p")).to_contain_text("words that are guessed first")
    expect(page.get_by_label("E-mail address")).to_have_value("nia@example.org")
