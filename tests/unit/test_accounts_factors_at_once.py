"""Second factors while something else happens: in another tab, or to the account."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import call_command
from django.test import Client

from accounts.models import User
from tests.factories import PersonFactory
from tests.unit.test_accounts_factors import ACTIVATE, CODES, SECOND, Account, code_of, is_signed_in, sign_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters")]


@pytest.fixture
def account(alice: User) -> Account:
    return Account(alice)


def test_factors_that_were_removed_during_a_sign_in_let_it_start_again(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    call_command("account", "remove-factors", account.person.email)
    assert browser.get(SECOND)["Location"] == "/accounts/sign-in"
    assert browser.get("/accounts/sign-in").status_code == 200
    assert not is_signed_in(browser)
    sign_in(browser, account.person.email)
    assert is_signed_in(browser)


def test_an_account_that_was_deleted_during_a_sign_in_lets_another_sign_in(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    account.person.delete()
    assert browser.get(SECOND)["Location"] == "/accounts/sign-in"
    assert browser.get("/accounts/sign-in").status_code == 200
    sign_in(browser, PersonFactory().email)
    assert is_signed_in(browser)


def test_a_request_for_the_headers_shows_no_recovery_codes_and_spends_none(alice: User) -> None:
    browser = Client()
    sign_in(browser, alice.email)
    secret = re.findall(r'<code dir="ltr">([A-Z2-7]+)</code>', text_of(browser.get(ACTIVATE)))[0]
    browser.post(ACTIVATE, {"code": code_of(secret)})
    assert browser.head(CODES).status_code == 200
    assert len(re.findall(r'<code dir="ltr">\d+</code>', text_of(browser.get(CODES)))) == 10


def test_an_authenticator_app_that_is_set_up_in_two_tabs_at_once_is_stored_once(
    account: Account, monkeypatch: Any
) -> None:
    monkeypatch.setattr("allauth.mfa.totp.views.is_mfa_enabled", lambda _person, _types: False)
    secret = re.findall(r'<code dir="ltr">([A-Z2-7]+)</code>', text_of(account.browser.get(ACTIVATE)))[0]
    answer = account.browser.post(ACTIVATE, {"code": code_of(secret)})
    assert answer["Location"] == "/accounts/security"
    assert Authenticator.objects.filter(type="totp").count() == 1
