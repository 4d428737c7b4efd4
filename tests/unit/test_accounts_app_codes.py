"""Codes of authenticator apps: how long one is valid, and that it is accepted once."""

from __future__ import annotations

import time

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core.cache import caches
from django.test import Client

from accounts.factors.used_codes import mark_used
from accounts.models import User
from tests.unit.test_accounts_factors import SECOND, Account, code_of, is_signed_in, sign_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters")]

PERIOD_SECONDS = 30


@pytest.fixture
def account(alice: User) -> Account:
    return Account(alice)


@pytest.fixture
def period() -> int:
    """When the present period of codes began, in Unix time."""
    return int(time.time()) // PERIOD_SECONDS * PERIOD_SECONDS


@pytest.mark.parametrize(("late_by", "expected"), [(-60, 200), (-1, 302), (0, 302), (59, 302), (60, 200)])
def test_a_code_of_the_app_is_valid_in_its_period_and_beside_it(
    account: Account, period: int, late_by: int, expected: int
) -> None:
    with time_machine.travel(period, tick=False):
        code = code_of(account.secret)
    with time_machine.travel(period + late_by, tick=False):
        browser = Client()
        sign_in(browser, account.person.email)
        assert browser.post(SECOND, {"code": code}).status_code == expected


@pytest.mark.parametrize("seconds_later", [0, 30, 59])
def test_a_code_of_the_app_works_once(account: Account, period: int, seconds_later: int) -> None:
    for now, expected in ((period, 302), (period + seconds_later, 200)):
        with time_machine.travel(period, tick=False):
            code = code_of(account.secret)
        with time_machine.travel(now, tick=False):
            browser = Client()
            sign_in(browser, account.person.email)
            answer = browser.post(SECOND, {"code": code})
            assert answer.status_code == expected
    assert "was used before" in text_of(answer)


def test_a_used_code_is_remembered_without_the_cache(account: Account) -> None:
    with time_machine.travel(time.time(), tick=False):
        for expected in (302, 200):
            caches["default"].clear()
            browser = Client()
            sign_in(browser, account.person.email)
            assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code == expected


@pytest.mark.parametrize("spelling", ["{}.{}", "{} {}", "{}-{}", "'{}{}'", "{},{}", "{}_{}"])
def test_a_used_code_is_refused_in_every_spelling(account: Account, spelling: str) -> None:
    with time_machine.travel(time.time(), tick=False):
        code = code_of(account.secret)
        for sent, expected in ((code, 302), (spelling.format(code[:3], code[3:]), 200)):
            caches["default"].clear()
            browser = Client()
            sign_in(browser, account.person.email)
            assert browser.post(SECOND, {"code": sent}).status_code == expected


def test_a_used_code_counts_as_a_wrong_one(account: Account, period: int) -> None:
    """allauth's memory of used codes ends after 30 seconds, and its count of the wrong ones after five minutes."""
    with time_machine.travel(period, tick=False) as clock:
        code = code_of(account.secret)
        browser = Client()
        sign_in(browser, account.person.email)
        assert browser.post(SECOND, {"code": code}).status_code == 302
        clock.shift(PERIOD_SECONDS + 1)
        browser = Client()
        sign_in(browser, account.person.email)
        for sent in ("wrong", "wrong", code, "wrong", "wrong"):
            assert "was used before" in text_of(browser.post(SECOND, {"code": sent}))
        later = text_of(browser.post(SECOND, {"code": code_of(account.secret)}))
    assert "was used before" not in later
    assert not is_signed_in(browser)


def test_an_app_that_is_removed_while_its_code_is_checked_signs_nobody_in(account: Account) -> None:
    app = Authenticator.objects.get(type="totp")
    assert mark_used(app, "123456")
    Authenticator.objects.all().delete()
    assert not mark_used(app, "654321")
