"""Specification 5: authentication of people, applications and tokens."""

from __future__ import annotations

from typing import Any

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory


@contract("5.1", "5.2")
def test_neither_a_code_nor_a_secret_nor_a_session_reads_a_profile(
    signed_in: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = CodeFactory(application=application, user=alice).raw
    for credential in (code, application.client_secret, application.client_id):
        error_of(signed_in.userinfo(credential), 401, "invalid_token")
    answer = signed_in.browser.get(f"{signed_in.base_url}/oauth/userinfo", timeout=10)
    error_of(answer, 401, "invalid_token")


@contract("5.3")
def test_the_secret_of_one_application_opens_no_other(driver: OAuthDriver, application: Registered) -> None:
    hers = ApplicationFactory()
    code = CodeFactory(application=application).raw
    token = TokenFactory(application=application).raw
    for secret in (hers.client_secret, token):
        error_of(driver.exchange(application, code, client_secret=secret), 401, "invalid_client")
    error_of(driver.exchange(hers, code), 400, "invalid_grant")


@contract("1.2")
def test_a_wrong_password_signs_nobody_in_and_the_way_goes_on(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    page = driver.open(driver.authorization_url(application, state="s"))
    for password in ("wrong", "", PASSWORD.upper(), f"{PASSWORD} "):
        page = driver.sign_in(page, alice.email, password)
        assert Page(page).sign_in
        assert "no-store" in page.headers["Cache-Control"]
        assert password not in page.text or password == ""
        assert Page(driver.open(driver.authorization_url(application))).sign_in
    answer = driver.sign_in(page, f" {alice.email.upper()}", PASSWORD)
    assert driver.callback(driver.decide(answer)).parameters["state"] == "s"


@contract("1.2")
def test_an_unknown_address_and_a_wrong_password_look_the_same(driver: OAuthDriver, alice: Any) -> None:
    texts = set()
    for email in (alice.email, "nobody-has-this@example.com"):
        page = driver.sign_in(driver.open("/accounts/sign-in"), email, "wrong password of some length")
        texts.add(Page(page).text.replace(email, "").replace(page.headers["X-Reference"], ""))
    assert len(texts) == 1


@contract("D17.person")
def test_a_deactivated_person_cannot_sign_in(driver: OAuthDriver, application: Registered) -> None:
    answer = driver.consent_page(application, PersonFactory(is_active=False).email, PASSWORD)
    assert Page(answer).consent is None
    assert "Location" not in answer.headers
