"""The sign-in page offers the account that signed in last with this browser."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

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


def test_the_last_account_is_offered_and_only_the_password_is_asked_for(known: Client, alice: User) -> None:
    page = known.get("/accounts/sign-in")
    assert page.context["offered"] == {
        "display_name": alice.display_name,
        "email": alice.email,
        "avatar_url": page.context["offered"]["avatar_url"],
    }
    assert [field.name for field in page.context["form"].visible_fields()] == ["password"]
    assert f'value="{alice.email}"' in page.content.decode()
    page = sign_in(known, alice.email, "wrong password")
    assert page.context["offered"]["email"] == alice.email
    assert page.context["form"].non_field_errors()
    assert sign_in(known, alice.email).status_code == 302
    known.post("/accounts/sign-out", {"next": AUTHORIZE})
    assert offered(known) == "", "to use another account"


def test_nothing_is_offered_where_nobody_signed_in_and_otherwise_the_newest(client: Client, alice: User) -> None:
    assert offered(client) == ""
    sign_in(client, alice.email, "wrong password")
    assert offered(client) == ""
    for person in (alice, PersonFactory()):
        sign_in(client, person.email)
        client.post("/accounts/sign-out")
        assert offered(client) == person.email


def test_another_address_that_was_typed_is_shown(known: Client) -> None:
    page = sign_in(known, "bob@example.com", "wrong password")
    assert "offered" not in page.context
    assert [field.name for field in page.context["form"].visible_fields()] == ["login", "password"]
    assert 'value="bob@example.com"' in page.content.decode()


def test_it_can_be_removed_and_the_way_back_is_kept(known: Client, alice: User, settings: Any) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = known.cookies
    strict.post("/accounts/sign-in/forget")
    assert offered(known) == alice.email, "a forged form removes nothing"
    answer = known.post("/accounts/sign-in/forget", {"next": AUTHORIZE})
    assert answer["Location"].startswith("/accounts/sign-in?next=%2Foauth%2Fauthorize")
    assert known.get(answer["Location"]).context["redirect_field_value"] == AUTHORIZE
    assert offered(known) == ""
    assert known.get("/accounts/sign-in/forget").status_code == 405
    settings.RATES = {"sign_in_account": "2/15m"}
    for _ in range(3):
        sign_in(Client(), alice.email, "wrong password")
    assert sign_in(known, alice.email).status_code == 302, "the browser is still known"


@pytest.mark.parametrize("end", [end_credentials, lambda person: set_active(person, False), User.delete])
def test_it_is_not_offered_after_the_credentials_ended(known: Client, alice: User, end: Any) -> None:
    end(alice)
    assert offered(known) == ""


def test_it_is_forgotten_after_180_days(known: Client, alice: User) -> None:
    with time_machine.travel(time.time() + 179 * 86_400):
        assert offered(known) == alice.email
    with time_machine.travel(time.time() + 181 * 86_400):
        assert offered(known) == ""


def test_the_browser_that_chose_a_new_password_offers_the_account(browser: Client, alice: User) -> None:
    new = dict.fromkeys(("password1", "password2"), NEW_PASSWORD)
    browser.post("/accounts/password/change", {"oldpassword": PASSWORD, **new})
    browser.post("/accounts/sign-out")
    assert offered(browser) == alice.email


def test_the_cookie_names_nobody(known: Client, alice: User) -> None:
    cookie = known.cookies[settings.LAST_ACCOUNT_COOKIE_NAME]
    assert '"' not in cookie.OutputString()  # HeaderLimitsMiddleware removes quoted ones
    content = cookie.value.encode() + base64.urlsafe_b64decode(cookie.value + "==")
    for told in (alice.email, str(alice.pk), alice.pk.hex, alice.nickname):
        assert told.encode() not in content


def test_an_old_key_still_reads_the_cookie_and_a_forged_one_offers_nobody(
    known: Client, alice: User, settings: Any
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "x" * 60, [settings.SECRET_KEY]
    assert offered(known) == alice.email
    settings.SECRET_KEY_FALLBACKS = []
    assert offered(known) == ""
    client = Client()
    for cookie in ("", "rubbish", "gAAAAAB" + "x" * 100, "é", "a" * 4000):
        client.cookies[settings.LAST_ACCOUNT_COOKIE_NAME] = cookie
        with CaptureQueriesContext(connection) as statements:
            assert offered(client) == ""
        assert len(statements) == 0
