"""Second factors while something else happens: in another tab, or to the account."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import call_command

from accounts.models import User
from tests.factories import PersonFactory
from tests.factors import APP, CODES, SECOND, Account, code_of, codes_on
from tests.pages import browser_of, is_signed_in, sign_in

pytestmark = pytest.mark.django_db


def test_factors_that_were_removed_during_a_sign_in_let_it_start_again(account: Account) -> None:
    browser = account.browser_before_code()
    call_command("account", "remove-factors", account.person.email)
    assert browser.get(SECOND)["Location"] == "/accounts/sign-in"
    assert browser.get("/accounts/sign-in").status_code == 200
    assert not is_signed_in(browser)
    sign_in(browser, account.person.email)
    assert is_signed_in(browser)


def test_an_account_that_was_deleted_during_a_sign_in_lets_another_sign_in(account: Account) -> None:
    browser = account.browser_before_code()
    account.person.delete()
    assert browser.get(SECOND)["Location"] == "/accounts/sign-in"
    assert browser.get("/accounts/sign-in").status_code == 200
    sign_in(browser, PersonFactory().email)
    assert is_signed_in(browser)


def test_a_request_for_the_headers_shows_no_recovery_codes_and_spends_none(alice: User) -> None:
    browser = browser_of(alice)
    secret = codes_on(browser.get(APP))[0]
    browser.post(APP, {"code": code_of(secret)})
    assert browser.head(CODES).status_code == 200
    assert len(codes_on(browser.get(CODES))) == 10


def test_an_authenticator_app_that_is_set_up_in_two_tabs_at_once_is_stored_once(
    account: Account, monkeypatch: Any
) -> None:
    monkeypatch.setattr("allauth.mfa.totp.views.is_mfa_enabled", lambda _person, _types: False)
    secret = codes_on(account.browser.get(APP))[0]
    answer = account.browser.post(APP, {"code": code_of(secret)})
    assert answer["Location"] == "/accounts/security"
    assert Authenticator.objects.filter(type="totp").count() == 1
