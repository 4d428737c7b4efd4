"""The flags of every cookie that a person gets from the link of an application to the sign-out."""

from __future__ import annotations

import re
from http.cookies import Morsel, SimpleCookie
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, Registered

HTTPS = "https://auth.example"
PURPOSES = {"session", "csrf", "known", "language", "ui-locales"}
SAME = {"path": "/", "samesite": "Lax", "domain": ""}


class Proxy(HTTPAdapter):
    """Sends the requests for HTTPS to the server at `address`, as a proxy that ends TLS does."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        assert request.url
        sent = request.copy()
        sent.url = request.url.replace(HTTPS, self.address)
        sent.headers["Host"] = HTTPS.partition("://")[2]
        response = super().send(sent, *arguments, **options)
        response.url = request.url
        return response


@pytest.fixture
def https_driver(launch: Launch) -> OAuthDriver:
    server = launch(BASE_URL=HTTPS, AUTH_URL=HTTPS, ALLOWED_HOSTS="auth.example")
    port = re.search(r"127\.0\.0\.1:(\d+)", server.log)
    assert port
    driver = OAuthDriver(HTTPS)
    driver.browser.mount(HTTPS, Proxy(f"http://127.0.0.1:{port[1]}"))
    return driver


def cookies_of_a_visit(driver: OAuthDriver, application: Registered, email: str) -> list[Morsel[str]]:
    """All cookies that the service sets while a person follows the link, signs in, chooses a language and signs out."""
    headers: list[str] = []
    driver.browser.hooks["response"].append(
        lambda response, **_options: headers.extend(response.raw.headers.getlist("Set-Cookie"))
    )
    page = driver.open(driver.authorization_url(application, ui_locales="de"))
    driver.callback(driver.decide(driver.sign_in(page, email, PASSWORD)))
    profile = driver.get("/accounts/profile")
    assert profile.status_code == 200
    language = next(form for form in Page(profile).forms if form.action.endswith("/accounts/language"))
    driver.submit(language, button=("language", "fr"))
    sign_out = next(form for form in Page(driver.open("/accounts/profile")).forms if "sign-out" in form.action)
    driver.submit(sign_out)
    assert Page(driver.open("/accounts/profile")).sign_in
    return [morsel for header in headers for morsel in SimpleCookie(header).values()]


def check_flags(cookies: list[Morsel[str]], *, is_https: bool) -> None:
    for cookie in cookies:
        assert {name: cookie[name] for name in SAME} == SAME, cookie.key
        assert bool(cookie["secure"]) is is_https, cookie.key
        # A cookie without a value deletes the one that the browser has.
        assert cookie["httponly"] or (cookie.value, str(cookie["max-age"])) == ("", "0"), cookie.key


@contract("O.cookies")
def test_with_https_each_cookie_is_secure_and_bound_to_its_host(
    https_driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    cookies = cookies_of_a_visit(https_driver, application, alice.email)
    assert {cookie.key for cookie in cookies} == {f"__Host-{purpose}" for purpose in PURPOSES}
    check_flags(cookies, is_https=True)
    assert "max-age" in https_driver.get("/accounts/sign-in").headers["Strict-Transport-Security"]


@contract("O.cookies")
def test_on_plain_loopback_no_cookie_is_secure(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    cookies = cookies_of_a_visit(driver, application, alice.email)
    assert {cookie.key for cookie in cookies} == {f"delegated_{each.replace('-', '_')}" for each in PURPOSES}
    check_flags(cookies, is_https=False)
