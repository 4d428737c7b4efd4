"""The flags of every cookie that a person gets from the link of an application to the sign-out."""

from __future__ import annotations

from http.cookies import Morsel
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from accounts.models import User
from tests.contract_coverage import contract
from tests.factories import PASSWORD, Registered
from tests.grants import PAGE, answer, link_of
from tests.pages import html_of
from tests.unit.test_config_environment import settings_with

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

    sign_in = noted(browser.get(link_of(application, ui_locales="de"), headers=PAGE))["Location"]
    page = noted(browser.get(sign_in))
    consent = noted(browser.post(sign_in, {"login": alice.email, "password": PASSWORD}))["Location"]
    noted(answer(browser, html_of(noted(browser.get(consent)))))
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
