"""What an OpenID Connect request asks of the person: prompt, max_age, hints, acr_values. OpenID Connect Core 3.1.2."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from joserfc.jwk import RSAKey

from accounts.models import Session
from oauth_bridge.consent import remembered
from oauth_bridge.storage import applications
from tests.contract.test_openid import signed_in
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, TokenFactory


@pytest.fixture
def at_home(driver: OAuthDriver, alice: Any) -> OAuthDriver:
    """A browser in which Alice is signed in."""
    return driver.signed_in(alice.email, PASSWORD)


def ask(driver: OAuthDriver, application: Registered, **parameters: str | None) -> Any:
    return driver.open(driver.authorization_url(application, **{"scope": "openid", **parameters}))


def error(driver: OAuthDriver, answer: Any) -> str:
    return driver.callback(answer).parameters["error"]


def prove(driver: OAuthDriver, answer: Any) -> Any:
    """Types the password on the page that asks for it again."""
    [form] = [form for form in Page(answer).forms if form.of_type("password")]
    assert "/accounts/confirm" in answer.url
    return driver.submit(form, password=PASSWORD)


# prompt=none ----------------------------------------------------------------------------------------------------------


@contract("I7.silent")
def test_a_silent_request_shows_no_page_and_writes_no_session(driver: OAuthDriver, application: Registered) -> None:
    before = Session.objects.count()
    answer = ask(driver, application, prompt="none")
    assert error(driver, answer) == "login_required"
    assert Session.objects.count() == before
    assert "Set-Cookie" not in answer.headers


@contract("I7.silent")
def test_a_silent_request_needs_a_consent_that_is_remembered(
    at_home: OAuthDriver, application: Registered, alice: Any
) -> None:
    assert error(at_home, ask(at_home, application, prompt="none")) == "consent_required"
    remembered.remember(alice, application.row, ["sub"])
    assert "code" in at_home.callback(ask(at_home, application, prompt="none")).parameters
    assert error(at_home, ask(at_home, application, prompt="none", scope="openid email")) == "consent_required"


def test_a_silent_request_of_a_trusted_application_answers_at_once(at_home: OAuthDriver) -> None:
    trusted = ApplicationFactory(is_trusted=True)
    assert "code" in at_home.callback(ask(at_home, trusted, prompt="none")).parameters


@contract("I7.silent")
def test_a_silent_request_of_a_person_who_must_see_a_page(
    at_home: OAuthDriver, alice: Any, django_db_blocker: Any
) -> None:
    trusted = ApplicationFactory(is_trusted=True)
    applications.set_groups(trusted.row, [])
    type(trusted.row).objects.filter(pk=trusted.row.pk).update(is_restricted=True)
    assert error(at_home, ask(at_home, trusted, prompt="none")) == "interaction_required"


@contract("I7.silent")
def test_a_silent_request_of_a_person_without_a_confirmed_address(at_home: OAuthDriver, alice: Any) -> None:
    type(alice).objects.filter(pk=alice.pk).update(email_verified_at=None)
    assert error(at_home, ask(at_home, ApplicationFactory(is_trusted=True), prompt="none")) == "interaction_required"


@contract("I7.silent")
def test_a_silent_request_that_needs_a_sign_in_is_told_of_nothing_else(
    at_home: OAuthDriver, application: Registered
) -> None:
    applications.set_groups(application.row, [])
    type(application.row).objects.filter(pk=application.row.pk).update(is_restricted=True)
    assert error(at_home, ask(at_home, application, prompt="none", max_age="0")) == "login_required"


def test_none_stands_alone(at_home: OAuthDriver, application: Registered) -> None:
    assert error(at_home, ask(at_home, application, prompt="none login")) == "invalid_request"


# prompt=login, max_age ------------------------------------------------------------------------------------------------


@contract("I7.fresh", "I7.once")
@pytest.mark.parametrize("parameters", [{"prompt": "login"}, {"max_age": "0"}], ids=str)
def test_a_fresh_sign_in_is_asked_for_once(
    at_home: OAuthDriver, application: Registered, parameters: dict[str, str]
) -> None:
    consent = prove(at_home, ask(at_home, application, **parameters))
    code = at_home.callback(at_home.decide(consent)).parameters["code"]
    token = at_home.exchange(application, code).json()["id_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert abs(time.time() - claims["auth_time"]) < 60


@contract("I7.once")
def test_whoever_signs_in_on_the_way_is_not_asked_again(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    url = driver.authorization_url(application, scope="openid", prompt="login", max_age="1")
    assert "code" in driver.authorize(url, alice.email, PASSWORD).parameters


def test_a_sign_in_that_is_young_enough_counts(at_home: OAuthDriver, application: Registered) -> None:
    assert Page(ask(at_home, application, max_age="3600")).consent


def test_an_old_consent_page_does_not_skip_the_proof(at_home: OAuthDriver, application: Registered) -> None:
    """The page of a request without `prompt` is answered; the sealed request of another one is put into it."""
    page = Page(ask(at_home, application)).consent
    assert page
    asked = ask(at_home, application, prompt="login")
    sealed = asked.url.partition("pending%3D")[2].partition("%26")[0]
    page.fields["pending"] = sealed.replace("%253A", ":").replace("%3A", ":")
    answer = at_home.submit(page, button=("decision", "allow"))
    assert "/accounts/confirm" in answer.url or Page(answer).consent


@pytest.mark.parametrize("value", ["-1", "1.5", "x", "1" * 10, "\u0663"])
def test_a_max_age_is_a_number_of_seconds(driver: OAuthDriver, application: Registered, value: str) -> None:
    assert error(driver, ask(driver, application, max_age=value)) == "invalid_request"


# prompt=consent, select_account ---------------------------------------------------------------------------------------


@contract("I7.consent")
@pytest.mark.parametrize("prompt", ["consent", "select_account", "select_account consent"])
def test_consent_is_asked_even_of_people_who_need_not_be(at_home: OAuthDriver, alice: Any, prompt: str) -> None:
    trusted, other = ApplicationFactory(is_trusted=True), ApplicationFactory()
    remembered.remember(alice, other.row, ["sub"])
    for application in (trusted, other):
        consent = ask(at_home, application, prompt=prompt)
        assert Page(consent).consent
        assert "out of date" not in Page(consent).text
        assert "code" in at_home.callback(at_home.decide(consent)).parameters


# Hints ----------------------------------------------------------------------------------------------------------------


def test_the_hint_of_the_same_person_changes_nothing(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    token = signed_in(driver, application, alice, scope="openid")["id_token"]
    assert Page(ask(driver, application, id_token_hint=token)).consent


@contract("I7.account")
def test_the_hint_of_somebody_else_gives_no_code(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    token = signed_in(driver, application, alice, scope="openid")["id_token"]
    other = OAuthDriver(driver.base_url).signed_in(PersonFactory().email, PASSWORD)
    page = Page(ask(other, application, id_token_hint=token))
    assert "expects another account" in page.text
    assert any("error=login_required" in link for link in page.links)
    assert page.consent is None
    assert error(other, ask(other, application, id_token_hint=token, prompt="none")) == "login_required"


@contract("I7.hint")
def test_a_hint_is_verified(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    token = signed_in(driver, application, alice, scope="openid")["id_token"]
    head, body, signature = token.split(".")
    none = jwt.encode({"sub": str(alice.pk), "aud": application.client_id, "iss": driver.base_url}, "", "none")
    for bad in ("x", "a.b.c", none, f"{head}.{body}.{signature[::-1]}", f"{head}.{body}."):
        assert error(driver, ask(driver, application, id_token_hint=bad)) == "invalid_request"
    another = ApplicationFactory()
    assert error(driver, ask(driver, another, id_token_hint=token)) == "invalid_request"


@contract("I7.hint")
def test_a_public_key_as_a_shared_secret_verifies_nothing(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    """Key confusion: the token is signed with HMAC, and the published key is the secret."""
    token = signed_in(driver, application, alice, scope="openid")["id_token"]
    kid = jwt.get_unverified_header(token)["kid"]
    published = next(key for key in driver.call("GET", "/oauth/jwks").json()["keys"] if key["kid"] == kid)
    body = {"sub": str(alice.pk), "aud": application.client_id, "iss": driver.base_url}
    parts = [{"alg": "HS256", "typ": "JWT", "kid": kid}, body]
    signed = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    for secret in (RSAKey.import_key(published).as_pem(private=False), json.dumps(published).encode()):
        mac = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=")
        forged = (signed + b"." + mac).decode()
        assert error(driver, ask(driver, application, id_token_hint=forged)) == "invalid_request"


@contract("I7.login-hint")
def test_the_login_hint_fills_the_field(driver: OAuthDriver, application: Registered) -> None:
    form = Page(ask(driver, application, login_hint="someone@example.com")).sign_in
    assert form
    assert form.fields["login"] == "someone@example.com"
    odd = Page(ask(driver, application, login_hint="\x00<b>" + "x" * 300)).sign_in
    assert odd
    plain = Page(ask(driver, application, scope=None, login_hint="someone@example.com")).sign_in
    assert plain
    assert plain.fields["login"] == ""


# Requests and tokens that are posted ----------------------------------------------------------------------------------


def post_request(driver: OAuthDriver, application: Registered, **parameters: str | None) -> Any:
    """An authorization request as a page of the application posts it: without cookies, from another origin."""
    query = driver.authorization_url(application, **{"scope": "openid", **parameters}).partition("?")[2]
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://app.example"}
    return driver.call("POST", "/oauth/authorize", data=query, headers=headers)


def test_a_posted_request_is_the_same_as_a_link(at_home: OAuthDriver, application: Registered) -> None:
    answer = post_request(at_home, application, state=" a+b%20\u00e9\x00 ")
    assert answer.status_code == 303
    assert "no-store" in answer.headers["Cache-Control"]
    consent = at_home.open(f"{at_home.auth_url}{answer.headers['Location']}")
    assert at_home.callback(at_home.decide(consent)).parameters["state"] == " a+b%20\u00e9\x00 "


def test_a_posted_request_is_verified_as_a_link(driver: OAuthDriver, application: Registered) -> None:
    answer = post_request(driver, application, redirect_uri="https://evil.example/")
    assert driver.open(f"{driver.auth_url}{answer.headers['Location']}").status_code == 400


def test_a_posted_answer_from_elsewhere_is_no_request(driver: OAuthDriver, application: Registered) -> None:
    for body in ("decision=allow", "pending=x&client_id=y&decision=allow", ""):
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example"}
        answer = driver.call("POST", "/oauth/authorize", data=body, headers=headers)
        assert "Location" not in answer.headers or "code=" not in answer.headers["Location"]
        assert answer.status_code in (303, 400, 403)


def test_a_posted_request_that_no_url_can_hold_is_refused(driver: OAuthDriver, application: Registered) -> None:
    error_of(post_request(driver, application, state="s" * 20_000), 413, "invalid_request")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for path in ("/oauth/authorize", "/oauth/logout"):
        answer = driver.call("POST", path, data=b"client_id=x&state=" + b"<" * 10_000, headers=headers)
        error_of(answer, 413, "invalid_request")


@contract("D17.header")
def test_user_info_takes_a_token_in_a_form(driver: OAuthDriver, alice: Any) -> None:
    token = TokenFactory(user=alice).raw
    by_form = driver.call("POST", "/oauth/userinfo", data={"access_token": token})
    by_header = driver.call("POST", "/oauth/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert by_form.json() == by_header.json() == driver.userinfo(token).json()


def test_a_token_is_sent_once_and_never_in_the_url(driver: OAuthDriver, alice: Any) -> None:
    token = TokenFactory(user=alice).raw
    header = {"Authorization": f"Bearer {token}"}
    error_of(
        driver.call("POST", "/oauth/userinfo", data={"access_token": token}, headers=header), 400, "invalid_request"
    )
    error_of(driver.call("POST", "/oauth/userinfo", data=""), 401, "invalid_token")
    error_of(driver.call("POST", "/oauth/userinfo", data={"access_token": "x y"}), 401, "invalid_token")
    error_of(driver.call("POST", f"/oauth/userinfo?access_token={token}", data={"a": "b"}), 400, "invalid_request")
    error_of(driver.call("GET", "/oauth/userinfo", data={"access_token": token}), 401, "invalid_token")


# response_mode=form_post ----------------------------------------------------------------------------------------------


@contract("I6.form-post")
def test_the_answer_is_posted_where_the_application_asks_for_it(at_home: OAuthDriver, application: Registered) -> None:
    consent = ask(at_home, application, response_mode="form_post", state='a"<b>&\u00e9')
    answer = at_home.decide(consent)
    [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
    assert answer.status_code == 200
    assert (form.method, set(form.fields)) == ("post", {"code", "state", "iss"})
    assert form.fields["state"] == 'a"<b>&\u00e9'
    assert "form-action 'self' https:" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert at_home.exchange(application, form.fields["code"]).status_code == 200


@contract("I6.form-post")
@pytest.mark.parametrize("parameters", [{"prompt": "none"}, {"request": "x"}, {"decision": "refuse"}], ids=str)
def test_errors_are_posted_too(driver: OAuthDriver, application: Registered, parameters: dict[str, str]) -> None:
    person = PersonFactory()
    decision = parameters.pop("decision", "")
    url = driver.authorization_url(application, scope="openid", response_mode="form_post", **parameters)
    answer = driver.open(url)
    if decision:
        answer = driver.decide(driver.sign_in(answer, person.email, PASSWORD), decision)
    [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
    assert {"error", "error_description", "state", "iss"} == set(form.fields)


def test_an_address_that_is_no_web_page_gets_no_post(driver: OAuthDriver) -> None:
    application = ApplicationFactory(redirect_uris="com.example.app:/callback")
    assert error(driver, ask(driver, application, response_mode="form_post")) == "invalid_request"
