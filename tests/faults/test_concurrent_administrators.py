"""The last two administrators remove each other, or themselves, at the same moment. P16."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.administrators import LastAdministrator
from accounts.models import User
from accounts.profile.deletion import delete_account
from accounts.sessions.credential_changes import set_active
from tests.factories import PersonFactory
from tests.pages import proven, with_session

PEOPLE = "/admin/accounts/user/"


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
    return partial(proven(with_session(person)).post, f"{PEOPLE}{other.pk}/change/", form)


def delete_in_admin(person: User, other: User) -> Callable[[], object]:
    return partial(
        proven(with_session(person)).post, f"{PEOPLE}{other.pk}/delete/", {"post": "yes", "typed": other.email}
    )


@pytest.mark.parametrize("way", [leave, deactivate, demote_in_admin, delete_in_admin])
def test_of_two_administrators_one_stays(postgresql: None, way: Callable[[User, User], Callable[[], object]]) -> None:
    for _ in range(5):
        first, second = administrators()
        start = threading.Barrier(2)

        def run(act: Callable[[], object], start: threading.Barrier = start) -> None:
            try:
                start.wait(timeout=30)
                act()
            except LastAdministrator:
                pass
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as pool:
            for each in [pool.submit(run, act) for act in (way(first, second), way(second, first))]:
                each.result(timeout=60)
        assert User.objects.filter(is_superuser=True, is_staff=True, is_active=True).count() == 1


def test_while_an_account_is_deleted_no_administrator_waits(postgresql: None) -> None:
    root, _ = administrators()

    def sign_in() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
            User.objects.filter(pk=root.pk).update(last_login=timezone.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        delete_account(PersonFactory())
        pool.submit(sign_in).result(timeout=60)
