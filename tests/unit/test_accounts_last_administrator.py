"""The last administrator can't be deleted, deactivated or demoted, by whatever way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry, User
from tests.factories import PersonFactory
from tests.pages import browser_of

pytestmark = pytest.mark.django_db

PEOPLE = "/admin/accounts/user/"
# A form of the page that keeps somebody an administrator.
KEPT = {"nickname": "Root", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
SENTENCE = "Nobody could administer the service then. Make somebody else an administrator with superuser status first."


def administrator(**changes: Any) -> Any:
    return PersonFactory(**{"is_staff": True, "is_superuser": True, "nickname": "Root", **changes})


@pytest.fixture
def admin_user() -> Any:
    """The only administrator: the others lack one of the three marks."""
    User.objects.filter(is_superuser=True).delete()
    for name in ("is_staff", "is_superuser", "is_active"):
        administrator(**{name: False})
    return administrator()


def demote(name: str) -> Callable[[Client, User], Any]:
    form = {field: value for field, value in KEPT.items() if field != name}
    return lambda browser, person: browser.post(f"{PEOPLE}{person.pk}/change/", form, follow=True)


def delete(browser: Client, person: User) -> Any:
    return browser.post(f"{PEOPLE}{person.pk}/delete/", {"post": "yes", "typed": person.email}, follow=True)


def delete_selected(browser: Client, person: User) -> Any:
    everybody = [str(pk) for pk in User.objects.values_list("pk", flat=True)]
    form = {"action": "delete_selected", "_selected_action": everybody, "post": "yes", "typed": str(len(everybody))}
    return browser.post(PEOPLE, form, follow=True)


def leave(_browser: Client, person: User) -> Any:
    """Delete the own account on the page of the profile."""
    return browser_of(person).post("/accounts/delete", {"email": person.email})


WAYS = {
    "deactivated": demote("is_active"),
    "no staff": demote("is_staff"),
    "no superuser": demote("is_superuser"),
    "deleted": delete,
    "deleted with all others": delete_selected,
    "left": leave,
}


def is_administrator(person: User) -> bool:
    return User.objects.filter(pk=person.pk, is_active=True, is_staff=True, is_superuser=True).exists()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_last_administrator_stays_and_the_page_says_what_to_do(
    admin_client: Client, admin_user: User, way: Callable[[Client, User], Any]
) -> None:
    people, logged = User.objects.count(), AuditEntry.objects.count()
    page = way(admin_client, admin_user)
    assert page.status_code == 200
    assert (SENTENCE if way is not leave else "You are the only administrator") in page.content.decode()
    assert is_administrator(admin_user)
    assert (User.objects.count(), AuditEntry.objects.count()) == (people, logged)
    if way is not delete_selected:
        administrator()
        way(admin_client, admin_user)
        assert not is_administrator(admin_user), "beside another, everybody may go"


def test_the_operators_command_keeps_the_last_administrator(admin_user: User) -> None:
    with pytest.raises(CommandError, match="Make another administrator first: make-administrator"):
        call_command("account", "deactivate", admin_user.email)
    assert is_administrator(admin_user)
    administrator()
    call_command("account", "deactivate", admin_user.email)
    assert not is_administrator(admin_user)
