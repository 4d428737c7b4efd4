"""A path with a slash too many or too few leads to its page, and that of password managers to the change. D2."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import admin_browser, browser_of, html_of

pytestmark = pytest.mark.django_db


@contract("D2.pages", "D2.post")
@pytest.mark.parametrize(
    ("path", "led_to"),
    [
        ("/admin?q=%C3%A9", "/admin/?q=%C3%A9"),
        ("/accounts/", "/accounts"),
        ("/accounts/sign-in//?next=/accounts/profile", "/accounts/sign-in?next=/accounts/profile"),
        ("/docs/", "/docs"),
    ],
)
def test_a_page_is_found_with_the_wrong_slash(client: Client, path: str, led_to: str) -> None:
    for ask in (client.get, client.head):
        answer = ask(path)
        assert (answer.status_code, answer["Location"]) == (302, led_to)
    assert client.post(path).status_code == 404


@contract("D2.slash")
def test_what_is_no_page_is_not_led_on(client: Client) -> None:
    for path in (
        *("/oauth/token/", "/oauth/authorize/", "/.well-known/openid-configuration/", "/openapi.json/"),
        *("/accounts/nothing/", "/health/live/", "/nothing/"),
        "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200",
    ):
        assert client.get(path, headers={"Accept": "text/html"}).status_code == 404, path


def test_the_administration_is_found_without_its_slash_and_an_unknown_path_is_a_404() -> None:
    browser = admin_browser()
    assert browser.get("/admin/accounts/user?q=x")["Location"] == "/admin/accounts/user/?q=x"
    for path in ("/admin/nothing", "/admin/nothing/", "/admin/accounts/nothing/"):
        assert browser.get(path).status_code == 404


def test_a_password_manager_finds_the_page_that_changes_the_password() -> None:
    """W3C, A Well-Known URL for Changing Passwords."""
    path = "/.well-known/change-password"
    assert Client().get(path, follow=True).request["PATH_INFO"] == "/accounts/sign-in"
    person = PersonFactory()
    shown = browser_of(person).get(path, follow=True)
    assert shown.request["PATH_INFO"] == "/accounts/password/change"
    assert 'autocomplete="new-password"' in html_of(shown)
    assert Client().post(path).status_code == 405
