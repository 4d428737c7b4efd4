"""The authorization request survives each way to a signed-in person, and each page of the way names the application."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accounts.models import User
from accounts.sessions.credential_changes import set_active
from tests.browser.conftest import Client, Open, confirm, mailed_code, mailed_codes, press, sign_in
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.factors import code_of
from tests.server import Server

Link = Callable[..., str]
CALLBACK = re.compile(r"127\.0\.0\.1:\d+/callback")
NEW_PASSWORD = "another battery staple"
SWITCHED_OFF = re.compile("is switched off")
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script on", "script off"])


class Way:
    """A browser on the way to an application."""

    def __init__(self, start: Open, application: Registered, link: Link, client: Client, server: Server) -> None:
        self.start, self.application, self.link = start, application, link
        self.client, self.server = client, server

    def begin(self, *, script: bool = True) -> Page:
        """The sign-in page of a request, in a new browser."""
        page = self.start(java_script_enabled=script).new_page()
        page.goto(self.link(self.application, state="kept"))
        self.names(page)
        return page

    def names(self, page: Page, heading: str = "") -> None:
        """The page, and the same page once more, name the application."""
        for _ in range(2):
            expect(page.get_by_role("main")).to_contain_text(self.application.row.name)
            if heading:
                expect(page.get_by_role("heading", name=heading)).to_be_visible()
            page.reload()

    def ends(self, page: Page) -> None:
        """The consent page, and after "Allow" the callback with the state of the request."""
        page.get_by_role("button", name="Allow").click()
        expect(page).to_have_url(CALLBACK)
        assert self.client.last["state"] == "kept"

    def code(self, email: str) -> str:
        return mailed_code(self.server, email)


@pytest.fixture
def way(open_browser: Open, web_application: Registered, link: Link, client_server: Client, provider: Server) -> Way:
    return Way(open_browser, web_application, link, client_server, provider)


def sign_up(page: Page) -> str:
    """Fill in and post the sign-up form of a sign-in page; returns the address."""
    email: str = PersonFactory.build().email
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    press(page, page.get_by_role("button", name="Create the account"))
    return email


@SCRIPT
@pytest.mark.parametrize("after", ["reload", "post"])
def test_the_code_of_a_sign_up_is_typed_in_another_tab(way: Way, script: bool, after: str) -> None:
    first = way.begin(script=script)
    email = sign_up(first)
    way.names(first, "Enter the code from the mail")
    second = first.context.new_page()
    second.goto(f"{way.server.auth_url}/accounts/sign-in")
    way.names(second, "Enter the code from the mail")
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


def test_a_double_click_signs_up_once(way: Way) -> None:
    """Both posts mail a code, and the page is that of one of them."""
    page = way.begin(script=False)
    email: str = PersonFactory.build().email
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create the account").dblclick()
    way.names(page, "Enter the code from the mail")
    for code in mailed_codes(way.server, email):
        if page.get_by_role("heading", name="Enter the code from the mail").count():
            confirm(page, code)
    way.ends(page)
    assert User.objects.filter(email=email).count() == 1


def test_three_wrong_codes_lead_back_to_the_sign_in_of_the_request(way: Way) -> None:
    page = way.begin()
    email = sign_up(page)
    for _ in range(3):
        confirm(page, "AAAAAA")
    way.names(page, "Sign in to continue to")
    sign_in(page, email, PASSWORD)
    way.names(page, "Enter the code from the mail")
    confirm(page, way.code(email))
    way.ends(page)


def test_the_address_of_a_person_who_is_signed_in_is_confirmed_on_the_way(way: Way) -> None:
    person = PersonFactory()
    page = way.begin()
    sign_in(page, person.email, PASSWORD)
    User.objects.filter(pk=person.pk).update(email_verified_at=None)
    page.reload()
    way.names(page, "Your e-mail address is not confirmed")
    press(page, page.get_by_role("button", name="Send me a code"))
    way.names(page, "Enter the code from the mail")
    confirm(page, way.code(person.email))
    way.ends(page)


@SCRIPT
def test_a_new_password_is_chosen_in_the_same_browser(way: Way, alice: Any, script: bool) -> None:
    first = way.begin(script=script)
    press(first, first.get_by_role("link", name="Forgot it?"))
    way.names(first, "Get a new password")
    first.get_by_label("E-mail address").fill(alice.email)
    press(first, first.get_by_role("button", name="Send the link"))
    way.names(first, "Look at your mail")
    second = first.context.new_page()
    second.goto(way.server.reset_link())
    way.names(second, "Choose a new password")
    second.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    second.get_by_label("New password again").fill(NEW_PASSWORD)
    press(second, second.get_by_role("button", name="Save the password"))
    expect(second.get_by_role("button", name="Allow")).to_be_visible()
    press(first, first.get_by_role("link", name="Back to sign-in"))
    way.ends(first)


def recovery_codes(page: Page, server: Server, person: Any) -> list[str]:
    """Set up a second factor for the person, with the codes that stand in for the authenticator app."""
    page.goto(f"{server.auth_url}/accounts/sign-in")
    sign_in(page, person.email, PASSWORD)
    page.wait_for_url("**/accounts/profile")
    page.goto(f"{server.auth_url}/accounts/security/authenticator")
    page.get_by_label("Code that the app shows").fill(code_of(page.locator(".steps code").inner_text()))
    press(page, page.get_by_role("button", name="Switch on"))
    expect(page.locator("#recovery-codes code")).to_have_count(10)
    return page.locator("#recovery-codes code").all_inner_texts()


def type_code(page: Page, code: str) -> None:
    page.get_by_label("Code from your authenticator app").fill(code)
    press(page, page.get_by_role("button", name="Continue", exact=True))


@SCRIPT
def test_the_second_factor_is_on_the_way(way: Way, alice: Any, script: bool) -> None:
    codes = recovery_codes(way.start().new_page(), way.server, alice)
    first = way.begin(script=script)
    sign_in(first, alice.email, PASSWORD)
    way.names(first, "Confirm that it is you")
    type_code(first, "123456")
    expect(first.get_by_role("main")).to_contain_text(way.application.row.name)
    second = first.context.new_page()
    second.goto(f"{way.server.auth_url}/accounts/sign-in")
    way.names(second, "Confirm that it is you")
    type_code(second, codes[0])
    expect(second.get_by_role("button", name="Allow")).to_be_visible()
    type_code(first, codes[1])
    way.ends(first)


def test_each_of_two_tabs_at_the_second_factor_leads_to_its_own_request(way: Way, alice: Any) -> None:
    codes = recovery_codes(way.start().new_page(), way.server, alice)
    first = way.begin()
    sign_in(first, alice.email, PASSWORD)
    second = first.context.new_page()
    other = ApplicationFactory()
    second.goto(way.link(other))
    expect(second.get_by_role("main")).to_contain_text(other.row.name)
    type_code(second, codes[0])
    expect(second.get_by_role("heading", name=other.row.name)).to_be_visible()
    first.reload()
    way.ends(first)


@SCRIPT
def test_another_account_is_chosen_at_the_second_factor(way: Way, alice: Any, script: bool) -> None:
    recovery_codes(way.start().new_page(), way.server, alice)
    page = way.begin(script=script)
    sign_in(page, alice.email, PASSWORD)
    press(page, page.get_by_role("button", name="Use another account"))
    way.names(page, "Sign in to continue to")
    sign_in(page, PersonFactory().email, PASSWORD)
    way.ends(page)


def test_another_account_is_chosen_on_the_consent_page(way: Way, alice: Any) -> None:
    page = way.begin(script=False)
    sign_in(page, alice.email, PASSWORD)
    press(page, page.get_by_role("button", name=re.compile("another account")))
    way.names(page)
    if page.get_by_role("button", name="Sign out").count():
        press(page, page.get_by_role("button", name="Sign out"))
    way.names(page, "Sign in to continue to")
    sign_in(page, PersonFactory().email, PASSWORD)
    way.ends(page)


def choose_password(page: Page, server: Server, email: str) -> None:
    """From a sign-in page, with the link that is mailed."""
    press(page, page.get_by_role("link", name="Forgot it?"))
    page.get_by_label("E-mail address").fill(email)
    press(page, page.get_by_role("button", name="Send the link"))
    page.goto(server.reset_link())
    page.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("New password again").fill(NEW_PASSWORD)
    press(page, page.get_by_role("button", name="Save the password"))


def test_lost_cookies_at_the_first_passkey_lead_to_a_password_by_mail(way: Way) -> None:
    page = way.begin()
    email: str = PersonFactory.build().email
    press(page, page.get_by_role("link", name="Create an account"))
    page.get_by_label("E-mail address").fill(email)
    press(page, page.get_by_role("button", name="Create an account with a passkey"))
    confirm(page, way.code(email))
    way.names(page, "Add your passkey")
    page.context.clear_cookies()
    page.reload()
    way.names(page, "Sign in to continue to")
    choose_password(page, way.server, email)
    way.ends(page)


@SCRIPT
def test_the_second_factor_comes_after_a_password_by_mail(way: Way, alice: Any, script: bool) -> None:
    """In the browser of a person who is signed in, too, whose session ends with the new password."""
    codes = recovery_codes(way.start().new_page(), way.server, alice)
    page = way.begin(script=script)
    choose_password(page, way.server, alice.email)
    way.names(page, "Confirm that it is you")
    type_code(page, codes[0])
    page.goto(f"{way.server.auth_url}/accounts/password/reset")
    page.get_by_label("E-mail address").fill(alice.email)
    press(page, page.get_by_role("button", name="Send the link"))
    page.goto(way.server.reset_link())
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    press(page, page.get_by_role("button", name="Save the password"))
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.goto(way.link(way.application, state="kept"))
    way.names(page, "Confirm that it is you")
    type_code(page, codes[1])
    way.ends(page)


@SCRIPT
@pytest.mark.parametrize("lost", ["session", "cookies"])
def test_a_consent_page_outlives_the_sign_in(way: Way, alice: Any, lost: str, script: bool) -> None:
    page = way.begin(script=script)
    sign_in(page, alice.email, PASSWORD)
    allow = page.get_by_role("button", name="Allow")
    expect(allow).to_be_visible()
    if lost == "session":
        alice.sessions.all().delete()
    else:
        page.context.clear_cookies()
    press(page, allow)
    way.names(page, "Sign in to continue to")
    sign_in(page, alice.email, PASSWORD)
    way.ends(page)


def test_lost_cookies_at_the_code_lead_to_the_sign_in_of_the_request(way: Way) -> None:
    page = way.begin()
    email = sign_up(page)
    page.context.clear_cookies()
    confirm(page, way.code(email))
    way.names(page, "Sign in to continue to")
    sign_in(page, email, PASSWORD)
    confirm(page, way.code(email))
    way.ends(page)


def test_lost_cookies_at_the_second_factor_lead_to_the_sign_in_of_the_request(way: Way, alice: Any) -> None:
    codes = recovery_codes(way.start().new_page(), way.server, alice)
    page = way.begin()
    sign_in(page, alice.email, PASSWORD)
    page.context.clear_cookies()
    type_code(page, codes[0])
    way.names(page, "Sign in to continue to")
    sign_in(page, alice.email, PASSWORD)
    type_code(page, codes[0])
    way.ends(page)


@SCRIPT
def test_a_person_who_is_deactivated_at_the_consent_is_told_so(
    way: Way, driver: OAuthDriver, alice: Any, mallory: Any, script: bool
) -> None:
    page = way.begin(script=script)
    sign_in(page, alice.email, PASSWORD)
    allow = page.get_by_role("button", name="Allow")
    expect(allow).to_be_visible()
    set_active(alice, False)
    press(page, allow)
    expect(page.get_by_role("status").filter(has_text=SWITCHED_OFF)).to_be_visible()
    way.names(page, "Sign in to continue to")
    expect(page.get_by_role("status").filter(has_text=SWITCHED_OFF)).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text(alice.email)
    stranger = way.begin()
    expect(stranger.get_by_role("status").filter(has_text=SWITCHED_OFF)).to_have_count(0)
    sign_in(stranger, alice.email, "wrong password of some length")
    expect(stranger.get_by_text(SWITCHED_OFF)).to_have_count(0)
    sign_in(page, mallory.email, PASSWORD)
    way.ends(page)


def test_a_person_who_is_deactivated_at_the_second_factor_is_told_so(way: Way, alice: Any) -> None:
    codes = recovery_codes(way.start().new_page(), way.server, alice)
    page = way.begin()
    sign_in(page, alice.email, PASSWORD)
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    User.objects.filter(pk=alice.pk).update(is_active=False)
    type_code(page, codes[0])
    expect(page.get_by_role("heading", name="This account is switched off")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(way.application.row.name)
    expect(page.get_by_text("Reference")).to_be_visible()
    page.get_by_role("link", name="Use another account").click()
    way.names(page, "Sign in to continue to")
