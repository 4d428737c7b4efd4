"""Signing up in Chromium: the rules of the password answer while it is typed, and addresses of any language."""

from __future__ import annotations

from playwright.sync_api import expect

from accounts.models import User
from tests.browser.conftest import Way, confirm, flaws, international_address, press, sign_in
from tests.factories import PASSWORD

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


def test_a_person_with_an_international_domain_signs_up_and_in(way: Way) -> None:
    typed, form = international_address()
    page = way.page()
    page.goto(f"{way.server.auth_url}/accounts/sign-up")
    page.get_by_label("E-mail address").fill(typed)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, "Create the account")
    confirm(page, way.code(form))
    assert User.objects.get(email=form).email_verified_at
    page = way.begin()
    sign_in(page, typed, PASSWORD)
    way.ends(page)
