"""Twelve faults over real HTTP and in a browser: the application's page names each, with what to change. D24."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from oauth_bridge.activity_titles import TITLES
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.storage import applications
from tests.browser.conftest import Open, press, sign_in
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered

VERIFIER = "v" * 43


def code(driver: OAuthDriver, application: Registered, **columns: Any) -> str:
    issued = CodeFactory(
        application=application, user=PersonFactory(), redirect_uri=application.redirect_uri, **columns
    )
    return str(issued.raw)


def link(driver: OAuthDriver, application: Registered, **changes: str) -> str:
    return str(driver.authorization_url(application, **changes))


# By cause: what the client does. The first three are seen by a person in the browser.
FAULTS: dict[str, Callable[[Page, OAuthDriver, Registered], object]] = {
    "redirect_uri_mismatch": lambda page, driver, one: page.goto(
        link(driver, one, redirect_uri=one.redirect_uri.replace("callback", "calback"))
    ),
    "response_type": lambda page, driver, one: page.goto(link(driver, one, response_type="token")),
    "challenge_plain": lambda page, driver, one: page.goto(
        link(driver, one, code_challenge=VERIFIER, code_challenge_method="plain")
    ),
    "secret_wrong": lambda _page, driver, one: driver.exchange(one, code(driver, one), client_secret="x" * 43),
    "secret_of_another": lambda _page, driver, one: driver.exchange(
        one, code(driver, one), client_secret=ApplicationFactory().client_secret
    ),
    "code_redirect_uri": lambda _page, driver, one: driver.exchange(
        one, code(driver, one), redirect_uri="https://client.example/other"
    ),
    "verifier_wrong": lambda _page, driver, one: driver.exchange(
        one, code(driver, one, code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"), code_verifier=VERIFIER
    ),
    "code_spent": lambda _page, driver, one: twice(driver, one),
    "code_expired": lambda _page, driver, one: driver.exchange(one, code(driver, one, issued_at=past(700))),
    "code_never_exchanged": lambda _page, driver, one: code(driver, one, issued_at=past(900)),
    "password_wrong": lambda page, driver, one: mistype(page, link(driver, one)),
    "client_disabled": lambda page, driver, one: disabled(page, driver, one),
}


def past(seconds: int) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


def mistype(page: Page, url: str) -> None:
    page.goto(url)
    sign_in(page, PersonFactory().email, "not the password of anybody")


def disabled(page: Page, driver: OAuthDriver, application: Registered) -> None:
    applications.set_enabled(application.row, False)
    page.goto(link(driver, application))


def twice(driver: OAuthDriver, application: Registered) -> None:
    raw = code(driver, application)
    assert driver.exchange(application, raw).status_code == 200
    AuthorizationCode.objects.filter(redeemed_at__isnull=False).update(redeemed_at="2026-01-01T00:00:00Z")
    assert driver.exchange(application, raw).status_code == 400


def test_the_page_of_the_application_names_each_of_twelve_faults(
    open_browser: Open, driver: OAuthDriver, web_application: Registered
) -> None:
    person, application = open_browser().new_page(), web_application
    for fault in FAULTS.values():
        fault(person, driver, application)

    page = open_browser().new_page()
    administrator = PersonFactory(is_staff=True, is_superuser=True)
    page.goto(f"{driver.auth_url}/accounts/sign-in")
    sign_in(page, administrator.email, PASSWORD)
    page.goto(driver.auth_url + reverse("admin:application", args=[application.row.pk]))
    press(page, page.get_by_role("link", name="All of 30 days"))
    for cause in FAULTS:
        row = page.get_by_role("row", name=TITLES[cause]).first
        expect(row).to_be_visible()
        assert row.locator("p.quiet").inner_text(), f"{cause} has no fix"
    assert urlsplit(page.url).path == "/admin/activity/"
