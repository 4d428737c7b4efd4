"""Recovery codes as a file, which needs no script."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.pages import CODES, SECOND, Account, html_of, is_signed_in

pytestmark = pytest.mark.django_db


def test_recovery_codes_are_downloaded_by_whoever_has_seen_them(account: Account) -> None:
    answer = account.browser.post(CODES, {"codes": " ".join(account.codes)})
    assert answer["Content-Disposition"] == 'attachment; filename="recovery-codes.txt"'
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "no-store" in answer["Cache-Control"]
    lines = html_of(answer).splitlines()
    assert lines[0] == f"Recovery codes of {account.person.email} at Delegated Sign-In"
    assert lines[2:12] == account.codes


def test_who_does_not_know_all_recovery_codes_downloads_none(account: Account) -> None:
    """Otherwise the page would tell which codes are right or unused, as often as one likes."""
    for code in account.codes[:-1]:
        fresh = account.browser_before_code()
        fresh.post(SECOND, {"code": code})
        assert is_signed_in(fresh)
    for known in ([], account.codes[:1], account.codes[:9], account.codes[-1:]):
        assert account.browser.post(CODES, {"codes": " ".join(known)})["Location"] == CODES
    assert Client().post(CODES, {"codes": " ".join(account.codes)})["Location"].startswith("/accounts/sign-in")
