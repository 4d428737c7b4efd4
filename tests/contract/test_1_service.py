"""Specification 1: what the service does, from the link of an application to the person's profile."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tests.conftest import Launch
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, Registered
from tests.matrix import contract
from tests.server import Server


@contract("1.1", "1.2", "1.3", "1.4", "1.5", "5.2")
def test_a_person_signs_in_to_an_application(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    sign_in_page = driver.open(driver.authorization_url(application, state="xyz"))
    assert Page(sign_in_page).sign_in
    consent_page = driver.sign_in(sign_in_page, alice.email, PASSWORD)
    assert application.row.name in Page(consent_page).text

    callback = driver.callback(driver.decide(consent_page))
    assert callback.address == application.redirect_uri
    assert callback.parameters["state"] == "xyz"

    token = driver.exchange(application, callback.parameters["code"]).json()["access_token"]
    profile = driver.userinfo(token).json()
    assert profile["sub"] == str(alice.pk)
    assert profile["email"] == alice.email


@contract("1/format")
def test_answers_are_json_in_utf_8(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    callback = driver.authorize(driver.authorization_url(application), alice.email, PASSWORD)
    token = driver.exchange(application, callback.parameters["code"])
    profile = driver.userinfo(token.json()["access_token"])
    for answer in (token, profile):
        assert answer.headers["Content-Type"].partition(";")[0] == "application/json"
        answer.content.decode("utf-8")
    assert profile.json()["nickname"] == "Alice Ægir"


@contract("1.1", "1.2")
def test_the_sign_in_page_says_which_application_asks(driver: OAuthDriver, application: Registered) -> None:
    text = Page(driver.open(driver.authorization_url(application))).text
    assert f"Sign in to continue to {application.row.name}" in text


@contract("1.2", "D7.asked")
def test_the_consent_page_shows_what_will_be_sent_from_which_account_and_to_where(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    page = Page(driver.consent_page(application, alice.email, PASSWORD))
    for shown in (application.row.name, "client.example", str(alice.pk), alice.nickname, alice.email):
        assert shown in page.text
    assert page.consent
    assert sorted(page.consent.buttons) == [("decision", "allow"), ("decision", "refuse")]


@contract("D2.slash")
def test_a_slash_at_the_end_is_a_404_that_names_the_right_path(driver: OAuthDriver) -> None:
    for path in ("/oauth/token", "/oauth/userinfo", "/oauth/authorize"):
        for method in ("GET", "POST"):
            answer = driver.call(method, f"{path}/?client_id=x")
            assert path in error_of(answer, 404, "not_found").split()
            assert "Location" not in answer.headers


@contract("D2.post", "D2.slash")
def test_a_post_is_never_answered_by_a_redirect_that_loses_its_body(
    driver: OAuthDriver, application: Registered
) -> None:
    for path in ("/oauth/token/", "/oauth/token", "//oauth/token", "/oauth", "/oauth/", "/oauth/userinfo"):
        answer = driver.call("POST", path, data={"grant_type": "authorization_code"})
        assert answer.status_code in (400, 404, 405), path


@contract("D1.redirect", "4.1")
def test_authorize_at_the_api_address_leads_to_the_pages_with_the_same_query(
    launch: Launch, application: Registered
) -> None:
    server = launch(BASE_URL="http://127.0.0.1:{port}", AUTH_URL="http://localhost:{port}")
    driver = OAuthDriver(server.base_url, server.auth_url)
    query = f"client_id={application.client_id}&state=%FF+a%20%22%C3%BC'()&x=1&response_type=code"
    answer = driver.call("GET", f"/oauth/authorize?{query}")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{server.auth_url}/oauth/authorize?{query}"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert driver.call("POST", "/oauth/authorize", data={"decision": "allow"}).status_code == 404


@contract("D1.cookies", "D1.origins")
def test_two_addresses_one_sign_in_with_cookies_at_the_pages_only(
    launch: Launch, application: Registered, alice: Any
) -> None:
    server = launch(BASE_URL="http://127.0.0.1:{port}", AUTH_URL="http://localhost:{port}")
    driver = OAuthDriver(server.base_url, server.auth_url)
    link = driver.authorization_url(application, at=server.base_url)
    callback = driver.authorize(link, alice.email, PASSWORD)
    assert {cookie.domain.removesuffix(".local") for cookie in driver.browser.cookies} == {"localhost"}

    answer = driver.exchange(application, callback.parameters["code"])
    profile = driver.userinfo(answer.json()["access_token"])
    assert profile.json()["avatar"].startswith(server.base_url)
    for response in (answer, profile, driver.call("GET", "/accounts/sign-in"), driver.call("GET", "/health/live")):
        assert "Set-Cookie" not in response.headers


@contract("D1.origins")
def test_origins_are_never_guessed_from_request_headers(
    driver: OAuthDriver, provider: Server, application: Registered, alice: Any
) -> None:
    callback = driver.authorize(driver.authorization_url(application), alice.email, PASSWORD)
    token = driver.exchange(application, callback.parameters["code"]).json()["access_token"]
    lies = {"Host": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    avatar = driver.userinfo(token, **lies, Forwarded="host=evil.example;proto=https").json()["avatar"]
    assert avatar.startswith(f"{provider.base_url}/")
    assert urlsplit(avatar).scheme == "http"


@contract("D1.origins")
def test_an_unknown_host_is_refused(driver: OAuthDriver) -> None:
    assert driver.call("GET", "/health/live", headers={"Host": "evil.example"}).status_code == 400
    error_of(driver.call("GET", "/oauth/userinfo", headers={"Host": "evil.example"}), 400, "invalid_request")
