"""Several browsers change one account, or the last administrators, at the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone

from accounts.administrators import LastAdministrator
from accounts.factors import failures
from accounts.factors.authenticators import mark_used
from accounts.models import FailedFactor, User
from accounts.passwords import hashing
from accounts.profile.deletion import delete_account
from accounts.sessions.credential_changes import set_active
from tests.factories import PersonFactory
from tests.faults.races import at_once, begin
from tests.pages import CODE_PAGE, SIGN_UP, mailed_code, proven, with_session

# Second factors. D21, L7 ----------------------------------------------------------------------------------------------


def test_one_of_ten_that_send_a_code_at_once_is_the_first(postgresql: None) -> None:
    app = Authenticator.objects.create(user=PersonFactory(), type="totp", data={"secret": "none"})
    for code in ("000000", "000001"):
        assert sum(at_once(*[partial(mark_used, app, code)] * 10)) == 1
    app.refresh_from_db()
    assert (app.data["secret"], len(app.data["used_codes"])) == ("none", 2)


def test_of_guesses_at_once_no_more_than_the_limit_are_checked(postgresql: None, settings: Any) -> None:
    settings.RATES = {"second_factor": "5/15m"}
    person, checked = PersonFactory(), []

    def check() -> None:
        checked.append(1)
        raise ValidationError("wrong", code="wrong")

    def guess() -> str:
        try:
            failures.limited(RequestFactory().post("/"), person, check, is_sign_in=False)
        except ValidationError as error:
            return str(error.code)
        return ""

    answers = at_once(*[guess] * 30)
    assert (len(checked), answers.count("wrong"), answers.count("throttled")) == (5, 5, 25)
    assert FailedFactor.objects.filter(user=person).count() == 5


# The last two administrators remove each other, or themselves. P16 ----------------------------------------------------


def administrators() -> list[User]:
    User.objects.filter(is_superuser=True).update(is_superuser=False)
    return [PersonFactory(is_staff=True, is_superuser=True) for _ in range(2)]


# Each way is ready before both begin: a sign-in would write the row of a person who may be deleted by then.


def leave(person: User, _other: User) -> Callable[[], object]:
    return partial(delete_account, person)


def deactivate(_person: User, other: User) -> Callable[[], object]:
    return partial(set_active, other, False)


def demote_in_admin(person: User, other: User) -> Callable[[], object]:
    form = {"nickname": "Other", "is_active": "on", "is_staff": "on"}
    return partial(proven(with_session(person)).post, f"/admin/accounts/user/{other.pk}/change/", form)


@pytest.mark.parametrize("way", [leave, deactivate, demote_in_admin])
def test_of_two_administrators_one_stays(postgresql: None, way: Callable[[User, User], Callable[[], object]]) -> None:
    first, second = administrators()
    start = threading.Barrier(2)

    def run(act: Callable[[], object]) -> None:
        start.wait(timeout=60)
        with suppress(LastAdministrator):
            act()

    at_once(partial(run, way(first, second)), partial(run, way(second, first)))
    assert User.objects.filter(is_superuser=True, is_staff=True, is_active=True).count() == 1


def test_while_an_account_is_deleted_no_administrator_waits(postgresql: None) -> None:
    root, _ = administrators()

    def sign_in() -> None:
        User.objects.filter(pk=root.pk).update(last_login=timezone.now())

    with transaction.atomic():
        delete_account(PersonFactory())
        begin(sign_in).result(timeout=60)  # a lock time-out would be raised here


# Two posts of one sign-up form, as after a double click without script ------------------------------------------------

PEOPLE = User._meta.db_table


@pytest.fixture
def sign_up_form(
    postgresql: None, fresh_counters: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.setattr(hashing, "places", threading.Semaphore(2))
    settings.SIGN_UP = "open"
    settings.ACCOUNT_RATE_LIMITS = dict.fromkeys(("signup", "login_failed", "confirm_email"))
    return {"email": f"new-{time.time_ns()}@example.org", "nickname": "Nia", "password1": "a long enough phrase"}


def post_both(browsers: list[Client], *forms: dict[str, str]) -> list[Any]:
    """The answers to a post of each browser. Both have found the address free before one of them stores it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {PEOPLE} IN SHARE MODE")
        posts = [begin(browser.post, SIGN_UP, form) for browser, form in zip(browsers, forms, strict=True)]
        while waiting(cursor) < 2:
            assert not any(post.done() for post in posts), "no post waits for the table"
    return [post.result(timeout=60) for post in posts]


def waiting(cursor: Any) -> int:
    """How many connections wait for the table of people."""
    cursor.execute(
        "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND d.datname = current_database() AND relation = %s::regclass",
        [PEOPLE],
    )
    return int(cursor.rowcount)


@pytest.mark.parametrize("one", [0, 1])
def test_both_posts_lead_to_a_page_that_takes_the_code_of_its_mail(sign_up_form: dict[str, str], one: int) -> None:
    """A browser follows the second answer, and either post may be the one that stores the account."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, sign_up_form, sign_up_form)
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    assert User.objects.filter(email=sign_up_form["email"]).count() == 1
    codes = [mailed_code(number) for number in range(2)]
    assert len(set(codes)) == len(mail.outbox) == 2
    typed = [browsers[one].post(CODE_PAGE, {"code": code}) for code in codes]
    assert "/accounts/profile" in [answer.get("Location") for answer in typed]
    assert User.objects.get(email=sign_up_form["email"]).email_verified_at


def test_with_another_password_only_one_post_leads_to_a_page_that_takes_a_code(sign_up_form: dict[str, str]) -> None:
    """Mallory posts the address at the same moment, and both pages look the same."""
    browsers = [Client(), Client()]
    answers = post_both(browsers, sign_up_form, sign_up_form | {"password1": "another phrase of hers"})
    assert [answer["Location"] for answer in answers] == [CODE_PAGE, CODE_PAGE]
    subjects = [str(each.subject) for each in mail.outbox]
    [told] = [number for number, subject in enumerate(subjects) if subject.startswith("You already have an ")]
    code = mailed_code(1 - told)
    typed = [browser.post(CODE_PAGE, {"code": code}).status_code for browser in browsers]
    assert sorted(typed) == [200, 302]
