"""People in groups. Django's groups also carry permissions: only superusers put people into such a group. D23."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry, User
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import with_session

pytestmark = pytest.mark.django_db

PEOPLE = "/admin/accounts/user/"
GROUPS = "/admin/auth/group/"


@pytest.fixture
def readers() -> Group:
    return Group.objects.create(name="readers")


@pytest.fixture
def keepers() -> Group:
    """A group with a permission."""
    group = Group.objects.create(name="keepers")
    group.permissions.set(Permission.objects.filter(codename="change_user"))
    return group


@pytest.fixture
def helper() -> Client:
    """The browser of an administrator with every permission on people and groups, who is no superuser."""
    person = PersonFactory(is_staff=True)
    person.user_permissions.set(Permission.objects.filter(content_type__app_label__in=("accounts", "auth")))
    return with_session(person)


def change(browser: Client, person: User, *groups: Group, **fields: Any) -> Any:
    form = {"nickname": person.nickname, "is_active": "on", "groups": [group.pk for group in groups]}
    return browser.post(f"{PEOPLE}{person.pk}/change/", {**form, **fields})


def names(person: User) -> set[str]:
    return set(person.groups.values_list("name", flat=True))


# People ---------------------------------------------------------------------------------------------------------------


def test_an_administrator_puts_people_into_groups_without_permissions(
    helper: Client, alice: User, readers: Group
) -> None:
    assert change(helper, alice, readers).status_code == 302
    assert names(alice) == {"readers"}
    change(helper, alice)
    assert names(alice) == set()


@contract("D23.superuser")
def test_only_a_superuser_puts_people_into_a_group_with_permissions(
    helper: Client, admin_client: Client, alice: User, keepers: Group
) -> None:
    page = change(helper, alice, keepers)
    assert "groups" in page.context["adminform"].form.errors
    assert names(alice) == set()
    assert "keepers" not in helper.get(f"{PEOPLE}{alice.pk}/change/").content.decode()
    assert change(admin_client, alice, keepers).status_code == 302
    assert names(alice) == {"keepers"}


@contract("D23.superuser")
def test_only_a_superuser_takes_people_out_of_a_group_with_permissions(
    helper: Client, admin_client: Client, alice: User, readers: Group, keepers: Group
) -> None:
    alice.groups.add(keepers)
    change(helper, alice, readers)
    assert names(alice) == {"readers", "keepers"}
    change(helper, alice, nickname="Zoe")
    assert names(alice) == {"keepers"}
    change(admin_client, alice)
    assert names(alice) == set()


def test_a_change_of_the_name_alone_does_not_say_that_groups_changed(
    helper: Client, alice: User, keepers: Group
) -> None:
    alice.groups.add(keepers)
    change(helper, alice, nickname="Zoe")
    (entry,) = AuditEntry.objects.filter(key=str(alice.pk))
    assert list(entry.changes) == ["nickname"]


def test_an_administrator_joins_no_group_by_their_own_page(helper: Client, readers: Group) -> None:
    own = User.objects.get(is_staff=True)
    assert change(helper, own, readers).status_code == 403
    assert names(own) == set()


# Groups ---------------------------------------------------------------------------------------------------------------


@contract("D23.superuser")
def test_only_a_superuser_gives_a_group_permissions(helper: Client, admin_client: Client, readers: Group) -> None:
    permission = Permission.objects.get(codename="change_user")
    form = {"name": "renamed", "permissions": [permission.pk]}
    assert helper.post(f"{GROUPS}{readers.pk}/change/", form).status_code == 302
    readers.refresh_from_db()
    assert (readers.name, readers.permissions.count()) == ("renamed", 0)
    helper.post(f"{GROUPS}add/", {**form, "name": "another"})
    assert not Group.objects.get(name="another").permissions.exists()
    assert admin_client.post(f"{GROUPS}{readers.pk}/change/", form).status_code == 302
    assert readers.permissions.get() == permission


@contract("D23.superuser")
@pytest.mark.parametrize("act", ["change", "delete"])
def test_only_a_superuser_changes_or_deletes_a_group_with_permissions(
    helper: Client, admin_client: Client, keepers: Group, act: str
) -> None:
    form = {"name": "renamed", "post": "yes"}
    assert helper.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 403
    assert Group.objects.get().name == "keepers"
    assert admin_client.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 302


def test_no_action_deletes_many_groups_at_once(helper: Client, keepers: Group) -> None:
    helper.post(GROUPS, {"action": "delete_selected", "_selected_action": [str(keepers.pk)], "post": "yes"})
    assert Group.objects.exists()


def test_a_group_is_deleted_with_the_number_of_its_people(admin_client: Client, alice: User, readers: Group) -> None:
    alice.groups.add(readers)
    page = admin_client.get(f"{GROUPS}{readers.pk}/delete/").content.decode()
    assert "People: 1" in page
    assert alice.email not in page


# The command line -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("account", *arguments, stdout=out)
    return out.getvalue()


def test_set_replaces_the_groups_and_makes_those_that_do_not_exist(alice: User, keepers: Group) -> None:
    answer = json.loads(run("set", alice.email, "--group", "keepers", "--group", "new ones", "--json"))
    assert answer["groups"] == ["keepers", "new ones"]
    assert not Group.objects.get(name="new ones").permissions.exists()
    assert "readers" in run("set", alice.email, "--group", "readers")
    assert names(alice) == {"readers"}
    assert "no group" in run("set", alice.email, "--group", "")
    assert names(alice) == set()


def test_set_names_the_field_and_changes_nothing(alice: User, readers: Group) -> None:
    alice.groups.add(readers)
    with pytest.raises(CommandError, match=r"^--group: "):
        run("set", alice.email, "--group", "fine", "--group", "x" * 151)
    assert names(alice) == {"readers"}
    assert Group.objects.count() == 1
    with pytest.raises(CommandError, match="Nothing to change"):
        run("set", alice.email)
    with pytest.raises(CommandError, match="no account"):
        run("set", "nobody@example.com", "--group", "readers")
