"""Two posts of one sign-up form overlap, as after a double click without script."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.db import connection, transaction
from django.test import Client

from accounts.models import User
from accounts.passwords import hashing

PEOPLE = User._meta.db_table
CODE_PAGE = "/accounts/confirm-email"
ALLAUTH_LIMITS = {"signup": None, "login_failed": None}


@pytest.fixture(autouse=True)
def is_open(postgresql: None, fresh_counters: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "WAIT_SECONDS", 60)
    settings.SIGN_UP = "open"
    settings.ACCOUNT_RATE_LIMITS = ALLAUTH_LIMITS | {"confirm_email": None}


@pytest.fixture
def form() -> dict[str, str]:
    return {"email": f"new-{time.time_ns()}@example.org", "nickname": "Nia", "password1": "a long enough phrase"}


def post(browser: Client, form: dict[str, str]) -> Any:
    try:
        return browser.post("/accounts/sign-up", form)
    finally:
        connection.close()


def post_both(browsers: list[Client], *forms: dict[str, str]) -> list[Any]:
    """The answers to a post of each browser. Both have found the address free before one of them stores it."""
    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {PEOPLE} IN SHARE MODE")
            answers = [pool.submit(post, *each) for each in zip(browsers, forms, strict=True)]
            while waiting(cursor) < 2:
                assert not any(answer.done() for answer in answers), "no post waits for the table"
        return [answer.result(timeout=60) for answer in answers]


def waiting(cursor: Any) -> int:
    """How many connections wait for the table of people."""
    cursor.execute(
        "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND d.datname = current_database() AND relation = %s::regclass",
        [PEOPLE],
    )
    return int(cursor.rowcount)


def mailed_codes() -> list[str]:
    found = [re.search(r"^\s*([A-Z0-9]{3,}-[A-Z0-9]{3,})\s*$", str(each.body), re.MULTILINE) for each in mail.outbox]
    return [each[1] for each in found if each]


@pytest.mark.parametrize("one", [0, 1])
def test_both_posts_lead_to_a_page_that_takes_the_code_of_its_mail(form: dict[str, str], one: int) -> None:
    """A browser follows the second answer, and either post may be the one that stores the account."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, form, form)
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    assert User.objects.filter(email=form["email"]).count() == 1
    codes = mailed_codes()
    assert len(set(codes)) == len(mail.outbox) == 2
    typed = [browsers[one].post(CODE_PAGE, {"code": code}) for code in codes]
    assert "/accounts/profile" in [answer.get("Location") for answer in typed]
    assert browsers[one].get("/accounts/profile").status_code == 200
    assert User.objects.get(email=form["email"]).email_verified_at


def test_with_limits_one_of_both_waits_and_goes_on_when_it_is_posted_again(form: dict[str, str], settings: Any) -> None:
    """One code in ten seconds is sent to an address."""
    settings.ACCOUNT_RATE_LIMITS = ALLAUTH_LIMITS | {"confirm_email": "1/10s/key"}
    browsers = [Client(), Client()]
    answers = post_both(browsers, form, form)
    assert sorted(answer.status_code for answer in answers) == [302, 429]
    browser = browsers[[answer.status_code for answer in answers].index(429)]
    with time_machine.travel(time.time() + 11):
        assert browser.post("/accounts/sign-up", form)["Location"] == CODE_PAGE
        assert browser.post(CODE_PAGE, {"code": mailed_codes()[-1]})["Location"] == "/accounts/profile"
    assert len(mail.outbox) == 2


def test_with_another_password_only_one_post_leads_to_a_page_that_takes_a_code(form: dict[str, str]) -> None:
    """Mallory posts the address at the same moment, and both pages look the same."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, form, form | {"password1": "another phrase of hers"})
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    [code] = mailed_codes()
    assert [each.subject[:20] for each in mail.outbox].count("You already have an ") == 1
    typed = [browser.post(CODE_PAGE, {"code": code}).status_code for browser in browsers]
    assert sorted(typed) == [200, 302]
