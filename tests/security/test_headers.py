"""The security headers of every kind of response (D20), and the flags of every cookie that a person gets."""

from __future__ import annotations

from http.cookies import Morsel
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests
from django.test import Client

from accounts.models import User
from tests import grants
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory
from tests.pages import html_of
from tests.unit.test_config_environment import settings_with


def policy(response: requests.Response) -> dict[str, list[str]]:
    directives = (part.split() for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in directives}


def check_page(response: requests.Response, *, leaves: bool = False, referrer: str = "same-origin") -> None:
    """`leaves`: a form of the page leads to an application, so the policy has no `form-action`."""
    assert response.headers["Content-Type"].startswith("text/html")
    assert "no-store" in response.headers["Cache-Control"]
    assert response.headers["Referrer-Policy"] == referrer
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    rules = policy(response)
    for name in ("default-src", "base-uri", "frame-ancestors"):
        assert rules[name] == ["'none'"]
    assert rules["script-src"] == rules["style-src"] == ["'self'"]
    assert rules.get("form-action") == (None if leaves else ["'self'"])
    assert not {"report-uri", "report-to"} & set(rules)
    assert not any("unsafe" in source or "*" in source for sources in rules.values() for source in sources)
    assert "publickey-credentials" not in response.headers.get("Permissions-Policy", "")
    assert "Access-Control-Allow-Origin" not in response.headers


@contract("D20.no-store", "D20.referrer", "D20.framing")
def test_pages_for_strangers(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    page = driver.open(driver.authorization_url(application))
    unknown_post = driver.browser.post(f"{driver.auth_url}/oauth/authorize", allow_redirects=False, timeout=10)
    assert Page(unknown_post).forms == []
    for answer in (
        page,
        driver.sign_in(page, alice.email, "wrong"),
        unknown_post,
        *(driver.open(path) for path in ("/accounts/password/reset", "/oauth/authorize", "/unknown", "/admin/")),
    ):
        check_page(answer)
    before = set(driver.browser.cookies.get_dict().values())
    continuing = driver.consent_page(ApplicationFactory(is_trusted=True), alice.email, PASSWORD)
    check_page(continuing, referrer="no-referrer")
    after = driver.browser.cookies.get_dict()
    assert not before & {value for name, value in after.items() if "session" in name}


@contract("D20.no-store", "D20.referrer", "D20.framing", "D20.form-action")
def test_a_page_limits_where_its_forms_lead_unless_one_leads_to_an_application(signed_in: OAuthDriver) -> None:
    for page in ("profile", "applications", "password/change", "sign-out"):
        check_page(signed_in.open(f"/accounts/{page}"))
    check_page(signed_in.open("/oauth/logout"))
    for address in ("https://client.example/cb", "http://[::1]:8181/cb", "com.example.app:/cb"):
        application = ApplicationFactory(redirect_uris=address, post_logout_redirect_uris=address)
        check_page(signed_in.open(signed_in.authorization_url(application)), leaves=True)
        sent = urlencode({"client_id": application.client_id, "post_logout_redirect_uri": address})
        check_page(signed_in.open(f"/oauth/logout?{sent}"), leaves=True)
    web = ApplicationFactory()
    posted = signed_in.open(signed_in.authorization_url(web, scope="openid", response_mode="form_post"))
    check_page(signed_in.decide(posted, follow=False), leaves=True, referrer="no-referrer")


@contract("D20.no-store", "D20.pragma", "D20.referrer", "D20.framing")
def test_machine_answers(driver: OAuthDriver, application: Registered) -> None:
    answers = [
        driver.exchange(application, CodeFactory(application=application).raw),
        driver.exchange(application, "x"),
        driver.exchange(application, "x", client_secret="wrong"),
        driver.userinfo(TokenFactory().raw),
        driver.userinfo("bad"),
        driver.call("GET", "/oauth/unknown"),
    ]
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert policy(answer) == {"default-src": ["'none'"], "frame-ancestors": ["'none'"]}
        assert "Set-Cookie" not in answer.headers
    assert all(answer.headers["Pragma"] == "no-cache" for answer in answers[:3])


PURPOSES = ("session", "csrf", "known", "language", "ui-locales")
OF_ORIGINS = {"BASE_URL", "AUTH_URL", "ALLOWED_HOSTS", "IS_HTTPS", "CSRF_TRUSTED_ORIGINS", "SECURE_HSTS_SECONDS"}


@contract("O.cookies")
@pytest.mark.django_db
@pytest.mark.parametrize(("url", "prefix"), [("https://auth.example", "__Host-"), ("http://localhost", "delegated_")])
def test_each_cookie_is_for_its_host_alone_and_secure_with_https(
    url: str, prefix: str, settings: Any, monkeypatch: pytest.MonkeyPatch, application: Registered, alice: User
) -> None:
    for name, value in settings_with(monkeypatch, BASE_URL=url, AUTH_URL=url).items():
        if name in OF_ORIGINS or "COOKIE" in name:
            setattr(settings, name, value)
    browser, cookies = Client(headers={"host": urlsplit(url).netloc}), list[Morsel[str]]()

    def noted(response: Any) -> Any:
        cookies.extend(response.cookies.values())
        return response

    sign_in = noted(browser.get(grants.link_of(application, ui_locales="de"), headers=grants.PAGE))["Location"]
    page = noted(browser.get(sign_in))
    consent = noted(browser.post(sign_in, {"login": alice.email, "password": PASSWORD}))["Location"]
    noted(grants.answer(browser, html_of(noted(browser.get(consent)))))
    noted(browser.post("/accounts/language", {"next": "/accounts/profile", "language": "fr"}))
    noted(browser.post("/accounts/sign-out"))
    is_https = prefix == "__Host-"
    purposes = PURPOSES if is_https else [each.replace("-", "_") for each in PURPOSES]
    assert {each.key for each in cookies} == {f"{prefix}{each}" for each in purposes}
    for each in cookies:
        assert (each["path"], each["samesite"], each["domain"], bool(each["secure"])) == ("/", "Lax", "", is_https)
        # A cookie without a value deletes the one that the browser has.
        assert each["httponly"] or (each.value, str(each["max-age"])) == ("", "0"), each.key
    assert page.has_header("Strict-Transport-Security") is is_https
