"""The ways of the authorization page in Firefox and WebKit, up to the request at the application's callback.

Firefox enforces no `form-action` on redirects, WebKit does; WebKit has no passkeys and drops Secure cookies on http.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from tests.browser.conftest import POST, Client, Request
from tests.browser.engines import ENGINES, Browser
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, Registered

pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")  # within Selenium


@pytest.fixture(params=ENGINES)
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    with ENGINES[request.param](tmp_path) as browser:
        yield browser


@dataclass
class Way(Request):
    browser: Browser

    def begin(self, **changes: Any) -> None:
        self.browser.open(self.link(**changes))

    def sign_in(self) -> None:
        self.browser.fill("E-mail address", self.person.email)
        self.browser.fill("Password", PASSWORD)
        self.browser.press("Sign in")

    def allow(self, end: str = "") -> None:
        """ "Continue" is the button for a person who has allowed the application before."""
        self.browser.press("Allow", "Continue")
        self.browser.arrives(end or self.client.callback)


@pytest.fixture
def way(browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, alice: Any) -> Way:
    return Way(driver, web_application, client_server, alice, browser)


def test_sign_in_and_allow_and_back_and_allow_again_and_refuse(way: Way) -> None:
    client = way.client
    way.begin(state="a b")
    if way.browser.driver.name != "firefox":
        assert way.browser.evaluate("typeof PublicKeyCredential") == "undefined"
        assert way.browser.buttons("Sign in")
        assert not way.browser.buttons("Use a passkey")
    way.sign_in()
    way.allow()
    way.browser.back()
    way.allow()
    assert [call["state"] for call in client.calls] == ["a b", "a b"]
    assert client.calls[0]["code"] != client.last["code"]
    way.redeem()
    way.begin(redirect_uri=client.forward)
    way.allow(client.landing)
    way.redeem(redirect_uri=client.forward)
    way.begin(redirect_uri=client.forward)
    way.browser.press("Refuse")
    way.browser.arrives(client.landing)
    assert client.last["error"] == "access_denied"


def test_a_request_that_another_site_posts_finds_the_person_signed_in_and_its_answer_is_posted(way: Way) -> None:
    browser = way.browser
    way.begin()
    way.sign_in()
    browser.button("Allow")
    browser.open(way.client.callback)
    link = way.link(state="a b", scope="openid", nonce="n", response_mode="form_post")
    browser.driver.execute_script(f"({POST})(arguments[0])", link)
    way.allow()
    assert [call.get("state") for call in way.client.calls] == [None, "a b"]
    way.redeem()


@pytest.mark.parametrize("browser", ["firefox"], indirect=True)
def test_a_passkey_signs_in(way: Way, browser: Browser) -> None:
    options = VirtualAuthenticatorOptions(
        transport="internal", has_resident_key=True, has_user_verification=True, is_user_verified=True
    )
    browser.driver.add_virtual_authenticator(options)
    browser.open(f"{way.driver.auth_url}/accounts/sign-in")
    way.sign_in()
    browser.shows(way.person.email)
    browser.open(f"{way.driver.auth_url}/accounts/security/passkeys/add")
    browser.fill("Name", "Work laptop")
    browser.press("Add the passkey")
    browser.shows("The passkey is added.")

    browser.open(f"{way.driver.auth_url}/accounts/sign-out")
    browser.press("Sign out")
    browser.shows("You are signed out.")
    way.begin()
    browser.press("Use a passkey")
    way.allow()
    way.redeem()
