"""The sign-in page offers the account that signed in last with this browser."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
import time_machine
from django.test import Client

from accounts.models import User
from accounts.sessions.credential_changes import end_credentials, set_active
from tests.factories import PASSWORD, PersonFactory
from tests.pages import AUTHORIZE, NEW_PASSWORD, known_browser, sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def known(alice: User) -> Client:
    return known_browser(alice)


def offered(browser: Client, query: str = "") -> str:
    """The address that the sign-in page offers, or ""."""
    context = browser.get("/accounts/sign-in" + query).context
    return str(context["offered"]["email"]) if "offered" in context else ""


def test_the_last_account_is_offered_and_only_the_password_is_asked_for(client: Client, alice: User) -> None:
    sign_in(client, alice.email, "wrong password")
    assert offered(client) == ""
    for person in (PersonFactory(), alice):
        sign_in(client, person.email)
        client.post("/accounts/sign-out")
        assert offered(client) == person.email
    page = client.get("/accounts/sign-in")
    assert page.context["offered"]["display_name"] == alice.display_name
    assert [field.name for field in page.context["form"].visible_fields()] == ["password"]
    page = sign_in(client, alice.email, "wrong password")
    assert page.context["offered"]["email"] == alice.email
    page = sign_in(client, "bob@example.com", "wrong password")
    assert "offered" not in page.context, "another was typed"
    assert 'value="bob@example.com"' in page.content.decode()
    assert sign_in(client, alice.email).status_code == 302
    client.post("/accounts/sign-out", {"next": AUTHORIZE})
    assert offered(client) == "", "to use another account"


def test_it_can_be_removed_and_the_way_back_is_kept(known: Client, alice: User, settings: Any) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = known.cookies
    strict.post("/accounts/sign-in/forget")
    assert known.get("/accounts/sign-in/forget").status_code == 405
    assert offered(known) == alice.email, "neither a forged form nor a link removes it"
    answer = known.post("/accounts/sign-in/forget", {"next": AUTHORIZE})
    assert known.get(answer["Location"]).context["return_to"] == AUTHORIZE
    assert offered(known) == ""
    settings.RATES = {"sign_in_account": "2/15m"}
    for _ in range(3):
        sign_in(Client(), alice.email, "wrong password")
    assert sign_in(known, alice.email).status_code == 302, "the browser is still known"


@pytest.mark.parametrize("end", [end_credentials, lambda person: set_active(person, False), User.delete])
def test_it_is_not_offered_after_the_credentials_ended(known: Client, alice: User, end: Any) -> None:
    end(alice)
    assert offered(known) == ""


def test_the_browser_that_chose_a_new_password_offers_the_account_for_180_days(browser: Client, alice: User) -> None:
    new = dict.fromkeys(("password1", "password2"), NEW_PASSWORD)
    browser.post("/accounts/password/change", {"oldpassword": PASSWORD, **new})
    browser.post("/accounts/sign-out")
    for days, expected in ((179, alice.email), (181, "")):
        with time_machine.travel(time.time() + days * 86_400):
            assert offered(browser) == expected


def test_the_cookie_names_nobody_and_works_with_an_old_key_only_as_a_fallback(
    known: Client, alice: User, settings: Any
) -> None:
    cookie = known.cookies[settings.KNOWN_BROWSER_COOKIE_NAME]
    content = cookie.value.encode() + base64.urlsafe_b64decode(cookie.value + "==")
    for told in (alice.email, str(alice.pk), alice.pk.hex, alice.nickname):
        assert told.encode() not in content
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "x" * 60, [settings.SECRET_KEY]
    assert offered(known) == alice.email
    settings.SECRET_KEY_FALLBACKS = []
    for value in (cookie.value, "", "rubbish", "gAAAAAB" + "x" * 100, "é"):
        known.cookies[settings.KNOWN_BROWSER_COOKIE_NAME] = value
        assert offered(known) == ""
