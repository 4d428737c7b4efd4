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
from tests.pages import AUTHORIZE, known_browser, sign_in

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
    assert sign_in(known, alice.email).status_code == 302


def test_nothing_is_offered_where_nobody_signed_in(client: Client, alice: User) -> None:
    assert offered(client) == ""
    sign_in(client, alice.email, "wrong password")
    assert offered(client) == ""


def test_the_newest_account_takes_the_place_of_the_one_before(known: Client) -> None:
    bob = PersonFactory()
    sign_in(known, bob.email)
    known.post("/accounts/sign-out")
    assert offered(known) == bob.email


def test_after_a_wrong_password_it_is_still_offered(known: Client, alice: User) -> None:
    page = sign_in(known, alice.email, "wrong password")
    assert page.context["offered"]["email"] == alice.email
    assert page.context["form"].non_field_errors()


def test_another_address_that_was_typed_is_shown(known: Client) -> None:
    page = sign_in(known, "bob@example.com", "wrong password")
    assert "offered" not in page.context
    assert [field.name for field in page.context["form"].visible_fields()] == ["login", "password"]
    assert 'value="bob@example.com"' in page.content.decode()


def test_it_can_be_removed_and_the_way_back_is_kept(known: Client) -> None:
    answer = known.post("/accounts/sign-in/forget", {"next": AUTHORIZE})
    assert answer["Location"].startswith("/accounts/sign-in?next=%2Foauth%2Fauthorize")
    assert known.get(answer["Location"]).context["redirect_field_value"] == AUTHORIZE
    assert offered(known) == ""
    assert known.get("/accounts/sign-in/forget").status_code == 405


def test_a_forged_form_removes_nothing(known: Client, alice: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = known.cookies
    strict.post("/accounts/sign-in/forget")
    assert offered(known) == alice.email


def test_who_signs_out_to_use_another_account_is_not_offered_the_one_before(client: Client, alice: User) -> None:
    sign_in(client, alice.email)
    client.post("/accounts/sign-out", {"next": AUTHORIZE})
    assert offered(client) == ""


def test_a_removed_account_stays_a_known_browser(known: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    known.post("/accounts/sign-in/forget")
    for _ in range(3):
        sign_in(Client(), alice.email, "wrong password")
    assert sign_in(known, alice.email).status_code == 302


@pytest.mark.parametrize("end", [end_credentials, lambda person: set_active(person, False), User.delete])
def test_it_is_not_offered_after_the_credentials_ended(known: Client, alice: User, end: Any) -> None:
    end(alice)
    assert offered(known) == ""


def test_it_is_forgotten_after_180_days(known: Client, alice: User) -> None:
    with time_machine.travel(time.time() + 179 * 86_400):
        assert offered(known) == alice.email
    with time_machine.travel(time.time() + 181 * 86_400):
        assert offered(known) == ""


def test_the_browser_that_chose_a_new_password_offers_the_account(client: Client, alice: User) -> None:
    sign_in(client, alice.email)
    new = "another battery staple"
    client.post("/accounts/password/change", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    client.post("/accounts/sign-out")
    assert offered(client) == alice.email


def test_the_cookie_names_nobody(known: Client, alice: User) -> None:
    cookie = known.cookies[settings.LAST_ACCOUNT_COOKIE_NAME]
    assert '"' not in cookie.OutputString()  # HeaderLimitsMiddleware removes quoted ones
    content = cookie.value.encode() + base64.urlsafe_b64decode(cookie.value + "==")
    for told in (alice.email, str(alice.pk), alice.pk.hex, alice.nickname):
        assert told.encode() not in content


@pytest.mark.parametrize("cookie", ["", "rubbish", "gAAAAAB" + "x" * 100, "é", "a" * 4000])
def test_a_forged_cookie_offers_nobody(client: Client, cookie: str) -> None:
    client.cookies[settings.LAST_ACCOUNT_COOKIE_NAME] = cookie
    with CaptureQueriesContext(connection) as statements:
        assert offered(client) == ""
    assert len(statements) == 0


def test_an_old_key_still_reads_the_cookie(known: Client, alice: User, settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "x" * 60, [settings.SECRET_KEY]
    assert offered(known) == alice.email
    settings.SECRET_KEY_FALLBACKS = []
    assert offered(known) == ""
