"""The authorization request survives each way to a signed-in person, and each page of the way names the application.

More ways, over HTTP and without tabs: tests/contract/test_4_1_consent.py, tests/unit/test_accounts_password_reset.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.sessions.credential_changes import set_active
from tests.browser.conftest import Way, confirm, press, sign_in
from tests.driver import Page as Html
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.pages import APP, code_of, codes_on

CODE, FACTOR = "Enter the code from the mail", "Confirm that it is you"
SIGN_IN = "Sign in to continue to"
SWITCHED_OFF = re.compile("is switched off")


def names(way: Way, page: Page, heading: str = "") -> None:
    """The page, and the same page once more, name the application."""
    for _ in range(2):
        expect(page.get_by_role("main")).to_contain_text(way.application.row.name)
        if heading:
            expect(page.get_by_role("heading", name=heading)).to_be_visible()
        page.reload()


def fill_sign_up(page: Page) -> str:
    """Fill in the sign-up form that a sign-in page leads to; returns the address."""
    email: str = PersonFactory.build().email
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    return email


@pytest.mark.parametrize(("script", "after"), [(True, "reload"), (False, "post")])
def test_the_code_of_a_sign_up_is_typed_in_another_tab(way: Way, script: bool, after: str) -> None:
    first = way.begin(script=script)
    names(way, first)
    email = fill_sign_up(first)
    press(first, "Create the account")
    names(way, first, CODE)
    second = first.context.new_page()
    second.goto(f"{way.server.auth_url}/accounts/sign-in")
    names(way, second, CODE)
    confirm(second, "AAAAAA")
    expect(second.get_by_role("main")).to_contain_text(way.application.row.name)
    code = way.code(email)
    confirm(second, code)
    expect(second.get_by_role("button", name="Allow")).to_be_visible()
    if after == "reload":
        first.reload()
    else:
        confirm(first, code)
    way.ends(first)


@pytest.fixture
def codes(way: Way) -> list[str]:
    """Recovery codes of the person, who has an authenticator app as the second factor."""
    browser = way.driver.signed_in(way.person.email, PASSWORD)
    page = browser.open(APP)
    (secret,) = codes_on(page)
    form = next(form for form in Html(page).forms if "code" in form.fields)
    codes = codes_on(browser.submit(form, code=code_of(secret)))
    assert len(codes) == 10
    return codes


def at_the_factor(way: Way) -> Page:
    page = way.begin()
    way.sign_in(page)
    names(way, page, FACTOR)
    return page


def type_code(page: Page, code: str) -> None:
    page.get_by_label("Code from your authenticator app").fill(code)
    press(page, "Continue")


def test_each_of_two_tabs_at_the_second_factor_leads_to_its_own_request(way: Way, codes: list[str]) -> None:
    first, other = at_the_factor(way), ApplicationFactory()
    type_code(first, "123456")
    expect(first.get_by_role("main")).to_contain_text(way.application.row.name)
    second = first.context.new_page()
    second.goto(way.driver.authorization_url(other))
    expect(second.get_by_role("main")).to_contain_text(other.row.name)
    type_code(second, codes[0])
    expect(second.get_by_role("heading", name=other.row.name)).to_be_visible()
    type_code(first, codes[1])
    way.ends(first)


def test_lost_cookies_at_the_factor_and_at_the_consent_lead_to_the_sign_in_of_the_request(
    way: Way, codes: list[str]
) -> None:
    page = at_the_factor(way)
    page.context.clear_cookies()
    type_code(page, codes[0])
    for code in codes[:2]:
        names(way, page, SIGN_IN)
        way.sign_in(page)
        type_code(page, code)
        expect(page.get_by_role("button", name="Allow")).to_be_visible()
        if code == codes[0]:
            page.context.clear_cookies()
            press(page, "Allow")
    way.ends(page)


def test_a_person_who_is_deactivated_at_the_consent_is_told_so(way: Way, mallory: Any) -> None:
    page = way.to_consent()
    set_active(way.person, False)
    press(page, "Allow")
    told = page.get_by_role("status").filter(has_text=SWITCHED_OFF)
    expect(told).to_be_visible()
    names(way, page, SIGN_IN)
    expect(told).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text(way.person.email)
    stranger = way.begin()
    expect(stranger.get_by_role("status").filter(has_text=SWITCHED_OFF)).to_have_count(0)
    sign_in(stranger, way.person.email, "wrong password of some length")
    expect(stranger.get_by_text(SWITCHED_OFF)).to_have_count(0)
    way.sign_in(page, mallory)
    way.ends(page)
