"""Recovery codes as a file, which needs no script."""

from __future__ import annotations

import re

import pytest
from django.core import signing

from tests.pages import CODES, Account, codes_on, html_of

pytestmark = pytest.mark.django_db


def test_recovery_codes_are_downloaded_by_whoever_has_seen_them(account: Account) -> None:
    page = account.browser.get(account.browser.post(f"{CODES}/new").headers["Location"])
    account.codes = codes_on(page)
    [signed] = re.findall(r'name="codes" value="([^"]+)"', html_of(page))
    answer = account.browser.post(CODES, {"codes": signed})
    assert answer["Content-Disposition"] == 'attachment; filename="recovery-codes.txt"'
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "no-store" in answer["Cache-Control"]
    lines = html_of(answer).splitlines()
    assert lines[0] == f"Recovery codes of {account.person.email} at Delegated Sign-In"
    assert lines[2:12] == account.codes


def test_codes_that_the_page_has_not_signed_are_no_file(account: Account) -> None:
    for codes in ("", " ".join(account.codes), signing.dumps(account.codes)):
        assert account.browser.post(CODES, {"codes": codes})["Location"] == CODES
