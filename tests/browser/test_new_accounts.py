"""Signing up in Chromium: the rules of the password while it is typed, a wrong code and a wrong address."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Way, confirm, flaws, press
from tests.factories import PASSWORD, PersonFactory

RULES = "#id_password1_helptext"


def test_the_rules_of_a_new_password_answer_while_it_is_typed(way: Way) -> None:
    page = way.page()
    page.goto(f"{way.server.auth_url}/accounts/sign-up")
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
    assert flaws(page) == []
    password.fill("")
    expect(rules.locator(".met, .broken")).to_have_count(0)


@pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])
def test_a_wrong_address_is_corrected_and_the_request_goes_on(way: Way, script: bool) -> None:
    page = way.begin(script=script)
    press(page, page.get_by_role("link", name="Create an account"))
    email: str = PersonFactory.build().email
    typo = email.replace("@", "-typo@")
    page.get_by_label("E-mail address").fill(typo)
    page.get_by_label("Nickname").fill("Nia")
    page.get_by_label("Password", exact=True).fill("iloveyouforever1")
    press(page, "Create the account")
    field, rules = page.get_by_label("Password", exact=True).bounding_box(), page.locator(RULES).bounding_box()
    assert field
    assert rules
    assert rules["y"] >= field["y"] + field["height"], "the rules stand below the field"
    expect(page.locator(".field .error p")).to_have_count(1)
    expect(page.locator(".field .error p")).to_contain_text("words that are guessed first")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, "Create the account")
    confirm(page, "AAAAAA")
    expect(page.get_by_text("This is not the code we sent.").first).to_be_visible()
    if script:
        assert flaws(page) == []
    press(page, "Wrong address? Change it")
    expect(page.get_by_role("main")).to_contain_text(way.application.row.name)
    expect(page.get_by_label("Nickname")).to_have_value("Nia")
    expect(page.get_by_label("E-mail address")).to_have_value(typo)
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, "Create the account")
    expect(page.get_by_role("main")).to_contain_text(email)
    confirm(page, way.code(email))
    way.ends(page)
