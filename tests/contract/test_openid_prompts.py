"""What an OpenID Connect request asks of the person: prompt, max_age, hints, acr_values. OpenID Connect Core 3.1.2."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from django.utils import timezone
from joserfc.jwk import RSAKey

from accounts.models import Session
from accounts.sessions.store import SessionStore
from oauth_bridge.consent import consents
from oauth_bridge.openid import signing_keys
from tests.contract.test_openid import exchanged, remade
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, TokenFactory


def ask(driver: OAuthDriver, application: Registered, **parameters: str | None) -> Any:
    return driver.open(driver.authorization_url(application, **{"scope": "openid", **parameters}))


def error(driver: OAuthDriver, answer: Any) -> str:
    return driver.callback(answer).parameters["error"]


@pytest.mark.integration
@contract("I7.silent")
def test_a_silent_request_needs_consent_and_login(signed_in: OAuthDriver, application: Registered, alice: Any) -> None:
    stranger, before = OAuthDriver(signed_in.base_url), Session.objects.count()
    answer = ask(stranger, application, prompt="none")
    told = (error(stranger, answer), Session.objects.count(), answer.headers.get("Set-Cookie"))
    assert told == ("login_required", before, None), "it writes no session"
    assert error(signed_in, ask(signed_in, application, prompt="none")) == "consent_required"
    consents.remember(alice, application.row, ["sub"])
    assert "code" in signed_in.callback(ask(signed_in, application, prompt="none")).parameters
    assert error(signed_in, ask(signed_in, application, prompt="none", scope="openid email")) == "consent_required"
    trusted = ApplicationFactory(is_trusted=True)
    # The name under which a verified hint is kept says nothing in a link.
    hint = f"{trusted.client_id} {PersonFactory().pk}"
    assert "code" in signed_in.callback(ask(signed_in, trusted, prompt="none", hint=hint)).parameters
    type(trusted.row).objects.filter(pk=trusted.row.pk).update(is_restricted=True)
    assert error(signed_in, ask(signed_in, trusted, prompt="none")) == "interaction_required"
    silent = ask(signed_in, trusted, prompt="none", max_age="0")
    assert error(signed_in, silent) == "login_required", "whoever must sign in is told of nothing else"
    trusted = ApplicationFactory(is_trusted=True)
    type(alice).objects.filter(pk=alice.pk).update(email_verified_at=None)
    assert error(signed_in, ask(signed_in, trusted, prompt="none")) == "interaction_required"
    Session.objects.filter(user=alice).update(expire_date=timezone.now())
    before = Session.objects.count()
    answer = ask(signed_in, application, prompt="none")
    assert error(signed_in, answer) == "login_required"
    assert 'delegated_session=""' in answer.headers["Set-Cookie"]
    assert Session.objects.count() <= before


@contract("I7.fresh", "I7.once")
@pytest.mark.parametrize("parameters", [{"prompt": "login"}, {"max_age": "0"}, {"max_age": "3600"}], ids=str)
def test_a_fresh_sign_in_is_asked_for_once(
    signed_in: OAuthDriver, application: Registered, alice: Any, parameters: dict[str, str]
) -> None:
    assert Page(ask(signed_in, application, max_age="3600")).consent, "it is young enough"
    session = SessionStore(signed_in.browser.cookies["delegated_session"])
    session["account_authentication_methods"][-1]["at"] -= 3601
    session.modified = True
    session.save()
    asked = ask(signed_in, application, **parameters)
    assert "/accounts/confirm" in asked.url
    [form] = [form for form in Page(asked).forms if form.of_type("password")]
    consent = signed_in.submit(form, password=PASSWORD)
    code = signed_in.callback(signed_in.decide(consent)).parameters["code"]
    claims = jwt.decode(signed_in.exchange(application, code).json()["id_token"], options={"verify_signature": False})
    assert claims["auth_time"] >= int(alice.email_verified_at.timestamp())
    on_the_way = OAuthDriver(signed_in.base_url)
    url = on_the_way.authorization_url(application, scope="openid", **parameters)
    assert "code" in on_the_way.authorize(url, alice.email, PASSWORD).parameters, "a sign-in on the way is a proof"


@contract("I7.consent")
@pytest.mark.parametrize("prompt", ["consent", "select_account", "select_account consent"])
def test_consent_is_asked_even_of_people_who_need_not_be(signed_in: OAuthDriver, alice: Any, prompt: str) -> None:
    trusted, other = ApplicationFactory(is_trusted=True), ApplicationFactory()
    consents.remember(alice, other.row, ["sub"])
    for application in (trusted, other):
        consent = ask(signed_in, application, prompt=prompt)
        assert "out of date" not in Page(consent).text
        assert "code" in signed_in.callback(signed_in.decide(consent)).parameters


@contract("I7.account")
def test_a_hint_or_wanted_sub_is_for_its_person_only(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    """OpenID Connect Core 1.0 §3.1.2.2: the `sub` that `claims` wants counts beside the hint of the right person."""

    def wanted(**asked: Any) -> dict[str, str | None]:
        return {"claims": json.dumps({"id_token": {"sub": asked}})}

    hint: dict[str, str | None] = {"id_token_hint": exchanged(driver, application, alice, scope="openid")["id_token"]}
    person = PersonFactory()
    for right in (hint, wanted(value=str(alice.pk))):
        assert Page(ask(driver, application, **right)).consent
    other = OAuthDriver(driver.base_url).signed_in(person.email, PASSWORD)
    of_another = [wanted(value=str(person.pk)), wanted(values=[str(person.pk)])]
    for browser, wrong in (
        (other, hint),
        *((driver, each) for each in of_another),
        (driver, {**hint, **of_another[0]}),
    ):
        page = Page(ask(browser, application, **wrong))
        assert "expects another account" in page.text
        assert any("error=login_required" in link for link in page.links)
        assert error(browser, ask(browser, application, prompt="none", **wrong)) == "login_required"


@pytest.mark.usefixtures("only_keys_of_the_service")
@contract("I7.hint", "I3.revoked")
def test_a_hint_is_verified(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    """However old it is. Also where the published key is the secret of a HMAC: key confusion."""
    token = exchanged(driver, application, alice, scope="openid")["id_token"]
    kid = jwt.get_unverified_header(token)["kid"]
    published = next(key for key in driver.call("GET", "/oauth/jwks").json()["keys"] if key["kid"] == kid)
    claims = {"sub": str(alice.pk), "aud": application.client_id, "iss": driver.base_url}
    parts = [{"alg": "HS256", "typ": "JWT", "kid": kid}, claims]
    signed = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    secrets = (RSAKey.import_key(published).as_pem(private=False), json.dumps(published).encode())
    macs = [base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=") for secret in secrets]
    head, body, signature = token.split(".")
    for bad in (
        "x",
        "a.b.c",
        jwt.encode(claims, "", "none"),
        f"{head}.{body}.{signature[::-1]}",
        f"{head}.{body}.",
        remade(token, iss="https://x.example"),
        *((signed + b"." + mac).decode() for mac in macs),
    ):
        assert error(driver, ask(driver, application, id_token_hint=bad)) == "invalid_request"
    assert error(driver, ask(driver, ApplicationFactory(), id_token_hint=token)) == "invalid_request"
    assert Page(ask(driver, application, id_token_hint=remade(token, exp=1_000_003_600))).consent
    signing_keys.revoke(kid)
    assert error(driver, ask(driver, application, id_token_hint=token)) == "invalid_request"


@contract("I7.login-hint")
def test_the_login_hint_fills_the_field(driver: OAuthDriver, application: Registered) -> None:
    for scope, filled in (("openid", "someone@example.com"), (None, "")):
        form = Page(ask(driver, application, scope=scope, login_hint="someone@example.com")).sign_in
        assert form
        assert form.fields["login"] == filled
    for odd in ("\x00<b>" + "x" * 5000, "\u202e\U0001f600" * 100, "'\"><script>"):
        answer = ask(driver, application, login_hint=odd)
        assert Page(answer).sign_in
        assert "<script>" not in answer.text.partition("</head>")[2]


def test_a_posted_request_is_the_same_as_a_link_and_no_answer(signed_in: OAuthDriver, application: Registered) -> None:
    """A page of the application posts it without cookies. Each byte of the long state is three characters in a URL."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://app.example"}

    def post(body: str | bytes, path: str = "/oauth/authorize") -> Any:
        return signed_in.call("POST", path, data=body, headers=headers)

    def posted(**changes: str) -> Any:
        answer = post(signed_in.authorization_url(application, **{"scope": "openid", **changes}).partition("?")[2])
        assert (answer.status_code, "no-store" in answer.headers["Cache-Control"]) == (303, True)
        return signed_in.open(f"{signed_in.auth_url}{answer.headers['Location']}")

    for state in (" a+b%20\u00e9\x00 ", "\u00e9" * 1900):
        assert signed_in.callback(signed_in.decide(posted(state=state))).parameters["state"] == state
    assert posted(redirect_uri="https://evil.example/").status_code == 400
    for body in ("decision=allow", "pending=x&client_id=y&decision=allow", ""):
        assert "code=" not in post(body).headers.get("Location", "")
    for path in ("/oauth/authorize", "/oauth/logout"):
        for state in (b"s" * 20_000, b"<" * 10_000):
            error_of(post(b"client_id=x&state=" + state, path), 413, "invalid_request")


@contract("D17.header")
def test_user_info_takes_a_token_in_a_form_once_and_never_in_the_url(driver: OAuthDriver, alice: Any) -> None:
    token = TokenFactory(user=alice).raw
    header, form = {"Authorization": f"Bearer {token}"}, {"access_token": token}
    by_form = driver.call("POST", "/oauth/userinfo", data=form)
    by_header = driver.call("POST", "/oauth/userinfo", headers=header)
    assert by_form.json() == by_header.json() == driver.userinfo(token).json()
    error_of(driver.call("POST", "/oauth/userinfo", data=form, headers=header), 400, "invalid_request")
    error_of(driver.call("POST", f"/oauth/userinfo?access_token={token}", data={"a": "b"}), 400, "invalid_request")
    for nothing in ("", {"access_token": "x y"}):
        error_of(driver.call("POST", "/oauth/userinfo", data=nothing), 401, "invalid_token")
    error_of(driver.call("GET", "/oauth/userinfo", data=form), 401, "invalid_token")


@contract("I6.form-post")
def test_errors_are_posted_too_but_to_web_pages_only(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    silent = ask(driver, application, response_mode="form_post", prompt="none")
    faulty = ask(driver, application, response_mode="form_post", request="x")
    consent = driver.sign_in(ask(driver, application, response_mode="form_post"), alice.email, PASSWORD)
    for answer in (silent, faulty, driver.decide(consent, "refuse")):
        [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
        assert set(form.fields) == {"error", "error_description", "state", "iss"}
    on_a_device = ApplicationFactory(redirect_uris="com.example.app:/callback")
    assert error(driver, ask(driver, on_a_device, response_mode="form_post")) == "invalid_request"
