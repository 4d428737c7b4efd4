"""The second factor of administrators. F4."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.mfa.models import Authenticator

from accounts.models import User
from tests.factors import APP, CODES, SECOND, Account, code_of
from tests.pages import browser_of, html_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def administrator(alice: User, settings: Any) -> User:
    settings.STAFF_SECOND_FACTOR = True
    alice.is_staff = alice.is_superuser = True
    alice.save()
    return alice


def test_an_administrator_without_a_factor_adds_one_and_is_led_back_after_the_recovery_codes(
    administrator: User,
) -> None:
    browser = browser_of(administrator)
    answer = browser.get("/admin/accounts/user/", follow=True)
    assert answer.redirect_chain[-1][0] == "/accounts/security"
    assert "Administrators need a second factor" in html_of(answer)
    code = code_of(browser.get(APP).context["form"].secret)
    shown = browser.post(APP, {"code": code}, follow=True)
    assert shown.redirect_chain[-1][0] == CODES
    assert 'class="button" href="/admin/accounts/user/"' in html_of(shown)
    assert 'class="button" href="/admin/' not in html_of(browser.get(CODES))


def test_who_had_to_add_a_factor_is_led_back_at_once_without_new_codes(administrator: User) -> None:
    browser = Account(administrator).browser
    Authenticator.objects.filter(type="totp").delete()
    browser.get("/admin/accounts/user/", follow=True)
    page = browser.get(APP)
    answer = browser.post(APP, {"code": code_of(page.context["form"].secret)})
    assert answer["Location"] == "/admin/accounts/user/"


def test_a_factor_that_was_just_set_up_is_asked_for_once(administrator: User) -> None:
    account = Account(administrator)
    answer = account.browser.get("/admin/", follow=True)
    assert answer.request["PATH_INFO"] == "/accounts/confirm/code"
    answer = account.browser.post(
        f"/accounts/confirm/code?{answer.request['QUERY_STRING']}", {"code": account.codes[0]}
    )
    assert answer["Location"] == "/admin/"
    assert account.browser.get("/admin/").status_code == 200


def test_an_administrator_enters_with_the_second_factor_and_not_after_its_removal(administrator: User) -> None:
    account = Account(administrator)
    browser = account.browser_before_code(next="/admin/")
    assert browser.post(SECOND, {"code": account.codes[0]})["Location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200
    for model in ("mfa/authenticator", "account/emailaddress"):
        assert browser.get(f"/admin/{model}/").status_code == 404
    Authenticator.objects.all().delete()
    assert browser.get("/admin/").status_code == 302


def test_who_is_no_administrator_is_refused_with_a_factor_too(account: Account, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = True
    assert account.browser.get("/admin/", follow=True).status_code == 403
