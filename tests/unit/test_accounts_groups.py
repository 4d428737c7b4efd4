"""People in groups. Django's groups also carry permissions: only superusers put people into such a group. D23."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry, User
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import text_of, with_session

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


def test_an_administrator_puts_others_into_groups_without_permissions(
    helper: Client, alice: User, readers: Group
) -> None:
    assert change(helper, alice, readers).status_code == 302
    assert names(alice) == {"readers"}
    change(helper, alice)
    assert names(alice) == set()
    assert change(helper, User.objects.get(is_staff=True), readers).status_code == 403


@contract("D23.superuser")
def test_only_a_superuser_puts_people_into_a_group_with_permissions_and_takes_them_out(
    helper: Client, admin_client: Client, alice: User, readers: Group, keepers: Group
) -> None:
    assert "groups" in change(helper, alice, keepers).context["adminform"].form.errors
    assert names(alice) == set()
    assert "keepers" not in helper.get(f"{PEOPLE}{alice.pk}/change/").content.decode()
    assert change(admin_client, alice, keepers).status_code == 302
    assert names(alice) == {"keepers"}
    change(helper, alice, nickname="Zoe")
    assert list(AuditEntry.objects.latest("id").changes) == ["nickname"], "it doesn't say that groups changed"
    change(helper, alice, readers)
    assert names(alice) == {"readers", "keepers"}
    change(admin_client, alice)
    assert names(alice) == set()


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
def test_only_a_superuser_changes_or_deletes_a_group_with_permissions(
    helper: Client, admin_client: Client, keepers: Group
) -> None:
    form = {"name": "renamed", "post": "yes"}
    for act in ("change", "delete"):
        assert helper.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 403
    helper.post(GROUPS, {"action": "delete_selected", "_selected_action": [str(keepers.pk)], "post": "yes"})
    assert Group.objects.get().name == "keepers"
    for act in ("change", "delete"):
        assert admin_client.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 302
    assert not Group.objects.exists()


def test_a_name_of_a_group_is_one_line_of_visible_text(admin_client: Client, keepers: Group, alice: User) -> None:
    change = f"{GROUPS}{keepers.pk}/change/"
    for name in ("a\nb", "a\r\nb", "a\u2028b", "a\x07b", "a\u202eb", "\u200b"):
        for address in (f"{GROUPS}add/", change):
            assert "This holds characters that can't be used here." in text_of(
                admin_client.post(address, {"name": name})
            )
        with pytest.raises(CommandError, match=r"^--group: "):
            call_command("account", "set", alice.email, "--group", name)
    assert [group.name for group in Group.objects.all()] == ["keepers"]
    assert admin_client.post(change, {"name": "Köpfe – 100 %"}).status_code == 302
