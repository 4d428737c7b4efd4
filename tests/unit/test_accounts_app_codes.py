"""Codes of authenticator apps: how long one is valid, and that it is accepted once."""

from __future__ import annotations

import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core.cache import caches

from accounts.factors.used_codes import mark_used
from tests.factors import APP, SECOND, Account, code_of, codes_on
from tests.pages import html_of

pytestmark = pytest.mark.django_db

PERIOD_SECONDS = 30


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
        browser = account.browser_before_code()
        assert browser.post(SECOND, {"code": code}).status_code == expected


@pytest.mark.parametrize("seconds_later", [0, 30, 59])
def test_a_code_of_the_app_works_once(account: Account, period: int, seconds_later: int) -> None:
    with time_machine.travel(period, tick=False):
        code = code_of(account.secret)
        assert account.browser_before_code().post(SECOND, {"code": code}).status_code == 302
    with time_machine.travel(period + seconds_later, tick=False):
        caches["default"].clear()  # which isn't needed to remember it
        browser = account.browser_before_code()
        for spelling in ("{}.{}", "{} {}", "{}-{}", "'{}{}'", "{}_{}", "{}{}"):
            answer = browser.post(SECOND, {"code": spelling.format(code[:3], code[3:])})
            assert answer.status_code == 200
    assert "was used before" in html_of(answer)


def test_a_used_code_counts_as_a_wrong_one(account: Account, period: int, settings: Any) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    with time_machine.travel(period, tick=False):
        code = code_of(account.secret)
        for expected in (302, 200, 200, 429):
            browser = account.browser_before_code()
            assert browser.post(SECOND, {"code": code}).status_code == expected


def test_the_code_that_set_up_the_app_is_used_up(account: Account) -> None:
    with time_machine.travel(time.time(), tick=False):
        account.browser.post(f"{APP}/off")
        (secret,) = codes_on(account.browser.get(APP))
        assert account.browser.post(APP, {"code": code_of(secret)}).status_code == 302
        for sent, expected in ((code_of(secret), 200), (code_of(secret, 1), 302)):
            browser = account.browser_before_code()
            assert browser.post(SECOND, {"code": sent}).status_code == expected


@pytest.mark.parametrize("damaged", [None, {"a": 1}])
def test_a_damaged_list_of_used_codes_is_taken_for_an_empty_one(account: Account, damaged: Any) -> None:
    app = Authenticator.objects.get(type="totp")
    app.data["used_codes"] = damaged
    app.save()
    browser = account.browser_before_code()
    assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code == 302
    app.refresh_from_db()
    assert len(app.data["used_codes"]) == 1


def test_an_app_that_is_removed_while_its_code_is_checked_signs_nobody_in(account: Account) -> None:
    app = Authenticator.objects.get(type="totp")
    assert mark_used(app, "123456")
    Authenticator.objects.all().delete()
    assert not mark_used(app, "654321")
