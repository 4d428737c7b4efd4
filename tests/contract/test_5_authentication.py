"""Specification 5: authentication of people, applications and tokens."""

from __future__ import annotations

from typing import Any

import pytest

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
    error_of(driver.exchange(application, code, client_secret=hers.client_secret), 401, "invalid_client")
    error_of(driver.exchange(hers, code), 400, "invalid_grant")


@contract("5.3")
def test_a_token_of_one_application_says_nothing_about_its_secret(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    token = TokenFactory(application=application, user=alice).raw
    error_of(driver.exchange(application, "x", client_secret=token), 401, "invalid_client")


@contract("5.4", "D10.equal")
def test_a_code_issued_for_one_address_is_not_redeemed_for_another(signed_in: OAuthDriver) -> None:
    application = ApplicationFactory(redirect_uris="https://client.example/callback\nhttps://client.example/b")
    page = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(signed_in.decide(page)).parameters["code"]
    error_of(signed_in.exchange(application, code, redirect_uri="https://client.example/b"), 400, "invalid_grant")


@contract("1.2")
@pytest.mark.parametrize("password", ["wrong", "", PASSWORD.upper(), f"{PASSWORD} "])
def test_a_wrong_password_signs_nobody_in(
    driver: OAuthDriver, application: Registered, alice: Any, password: str
) -> None:
    answer = driver.sign_in(driver.open(driver.authorization_url(application)), alice.email, password)
    assert Page(answer).sign_in
    assert answer.headers["Cache-Control"].startswith("no-store") or "no-store" in answer.headers["Cache-Control"]
    assert password not in answer.text or password == ""
    assert Page(driver.open(driver.authorization_url(application))).sign_in


@contract("1.2")
def test_after_a_wrong_password_the_way_goes_on(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    page = driver.sign_in(driver.open(driver.authorization_url(application, state="s")), alice.email, "wrong")
    answer = driver.sign_in(page, alice.email, PASSWORD)
    assert driver.callback(driver.decide(answer)).parameters["state"] == "s"


@contract("1.2")
def test_an_unknown_address_and_a_wrong_password_look_the_same(driver: OAuthDriver, alice: Any) -> None:
    texts = []
    for email in (alice.email, "nobody-has-this@example.com"):
        page = driver.sign_in(driver.open("/accounts/sign-in"), email, "wrong password of some length")
        texts.append(Page(page).text.replace(email, "").replace(page.headers["X-Reference"], ""))
    assert texts[0] == texts[1]


@contract("1.2")
def test_an_address_is_taken_in_any_case(driver: OAuthDriver, application: Registered) -> None:
    person = PersonFactory()
    url = driver.authorization_url(application)
    assert "code" in driver.authorize(url, f" {person.email.upper()}", PASSWORD).parameters


@contract("D17.person")
def test_a_deactivated_person_cannot_sign_in(driver: OAuthDriver, application: Registered) -> None:
    person = PersonFactory(is_active=False)
    answer = driver.consent_page(application, person.email, PASSWORD)
    assert Page(answer).consent is None
    assert "Location" not in answer.headers


@contract("D15.passwords")
def test_a_password_is_stored_as_argon2id(alice: Any, manage: Any) -> None:
    email = f"stored-{alice.pk.hex}@example.com"
    manage("account", "create", email, "--nickname", "N", "--password-stdin", stdin=PASSWORD)
    row = type(alice).objects.get(email=email)
    assert row.password.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")
