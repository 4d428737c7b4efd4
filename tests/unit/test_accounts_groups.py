"""Who administers: the last administrator stays, and only superusers put people into groups with permissions. D23."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry, User
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import html_of, staff, text_of, with_session

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


@pytest.fixture
def bob() -> User:
    return PersonFactory()


def change(browser: Client, person: User, *groups: Group, **fields: Any) -> Any:
    form = {"nickname": person.nickname, "groups": [group.pk for group in groups]}
    return browser.post(f"{PEOPLE}{person.pk}/change/", {**form, **fields})


def names(person: User) -> set[str]:
    return set(person.groups.values_list("name", flat=True))


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
    change(helper, alice)
    assert names(alice) == {"keepers"}
    change(admin_client, alice)
    assert names(alice) == set()
    assert change(helper, User.objects.get(pk=helper.session["_auth_user_id"]), readers).status_code == 403


@contract("D23.superuser")
def test_only_a_superuser_gives_a_group_permissions_and_manages_one_with_permissions(
    helper: Client, admin_client: Client, readers: Group, keepers: Group
) -> None:
    permission = Permission.objects.get(codename="change_user")
    form = {"name": "renamed", "permissions": [permission.pk], "post": "yes"}
    assert helper.post(f"{GROUPS}{readers.pk}/change/", form).status_code == 302
    readers.refresh_from_db()
    assert (readers.name, readers.permissions.count()) == ("renamed", 0)
    helper.post(f"{GROUPS}add/", {**form, "name": "another"})
    assert not Group.objects.get(name="another").permissions.exists()
    for act in ("change", "delete"):
        assert helper.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 403
    asked = html_of(admin_client.get(f"{GROUPS}{readers.pk}/delete/"))
    assert f'href="{GROUPS}{readers.pk}/">Keep' in asked, "whoever keeps it goes back to its page"
    helper.post(GROUPS, {"action": "delete_selected", "_selected_action": [str(keepers.pk)], "post": "yes"})
    assert Group.objects.filter(name="keepers").exists()
    assert admin_client.post(f"{GROUPS}{readers.pk}/change/", form).status_code == 302
    assert readers.permissions.get() == permission
    assert admin_client.post(f"{GROUPS}{readers.pk}/delete/", form).status_code == 302
    assert not Group.objects.filter(pk=readers.pk).exists()


def test_a_name_of_a_group_is_one_line_of_visible_text(admin_client: Client, keepers: Group, alice: User) -> None:
    change = f"{GROUPS}{keepers.pk}/change/"
    for address in (f"{GROUPS}add/", change):
        said = text_of(admin_client.post(address, {"name": "a\u202eb"}))
        assert "This holds characters that can't be used here." in said
    with pytest.raises(CommandError, match=r"^--group: "):
        call_command("account", "set", alice.email, "--group", "a\nb")
    assert [group.name for group in Group.objects.all()] == ["keepers"]
    assert admin_client.post(change, {"name": "Köpfe – 100 %"}).status_code == 302


# The page of a group: its members -------------------------------------------------------------------------------------


def post_to(browser: Client, group: Group, **form: Any) -> Any:
    return browser.post(f"{GROUPS}{group.pk}/", form)


def members(group: Group) -> set[str]:
    return set(group.user_set.values_list("email", flat=True))


def test_many_people_are_added_and_unknown_addresses_are_named_and_stay_in_the_field(
    admin_client: Client, readers: Group, alice: User, bob: User
) -> None:
    readers.user_set.add(bob)
    typed = f"Alice Liddell <{alice.email.upper()}>; {bob.email},\nnobody@example.org ada"
    page = post_to(admin_client, readers, addresses=typed)
    assert members(readers) == {alice.email, bob.email}
    said = text_of(page)
    assert "1 person is added. 1 needed no change." in said
    assert "No account has: nobody@example.org, ada." in said
    assert page.context["form"]["addresses"].value() == "nobody@example.org\nada"
    assert AuditEntry.objects.get(kind="person").changes == {"groups": [[], ["readers"]]}
    assert AuditEntry.objects.get(kind="group").changes == {"members": [[], [str(alice.pk)]]}
    trail = text_of(admin_client.get(f"{GROUPS}{readers.pk}/history/", follow=True))
    assert f"Changed the group Members Members {alice.display_name}" in trail
    many = " ".join(f"{number}@example.org" for number in range(1_001))
    assert "These are more than 1000." in text_of(post_to(admin_client, readers, addresses=many))


def test_the_chosen_people_are_removed_after_a_question(
    admin_client: Client, readers: Group, alice: User, bob: User, mallory: User
) -> None:
    readers.user_set.set([alice, bob, mallory])
    chosen = {"action": "remove", "_selected_action": [alice.pk, bob.pk]}
    assert "Remove from readers: 2 chosen" in text_of(post_to(admin_client, readers, **chosen))
    assert len(members(readers)) == 3
    assert "2 chosen" in text_of(post_to(admin_client, readers, **chosen, post="1")), "the number before another"
    post_to(admin_client, readers, **chosen, post="2")
    assert members(readers) == {mallory.email}
    removed = AuditEntry.objects.get(kind="group").changes["members"]
    assert removed == [sorted([str(alice.pk), str(bob.pk)]), []]
    for nobody in ([], [alice.pk]):
        post_to(admin_client, readers, action="remove", _selected_action=nobody, post="1")
    assert post_to(admin_client, readers, action="remove", _selected_action="x").status_code == 400
    assert members(readers) == {mallory.email}


def test_who_may_not_change_groups_and_people_changes_no_members(
    helper: Client, readers: Group, alice: User, bob: User
) -> None:
    readers.user_set.add(bob)
    person = User.objects.get(is_staff=True)
    for lacking in ("change_group", "change_user", "view_user"):
        permissions = Permission.objects.filter(content_type__app_label__in=("accounts", "auth"))
        person.user_permissions.set(permissions.exclude(codename=lacking))
        for form in ({"addresses": alice.email}, {"action": "remove", "_selected_action": bob.pk, "post": "1"}):
            assert post_to(helper, readers, **form).status_code == 403
        page = text_of(helper.get(f"{GROUPS}{readers.pk}/"))
        assert ("Add people" in page, bob.email in page) == (False, lacking != "view_user")
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="accounts"))
    assert helper.get(f"{GROUPS}{readers.pk}/").status_code == 403
    assert members(readers) == {bob.email}


@contract("D23.superuser")
def test_nobody_gives_or_takes_more_rights_than_the_own_on_the_page_of_a_group(
    helper: Client, admin_client: Client, admin_user: User, alice: User, readers: Group, keepers: Group
) -> None:
    assert post_to(helper, keepers, addresses=alice.email).status_code == 403
    said = text_of(post_to(helper, readers, addresses=f"{alice.email} {admin_user.email}"))
    assert f"Only superusers may add: {admin_user.email}." in said
    assert members(readers) == {alice.email}
    readers.user_set.add(admin_user)
    post_to(helper, readers, action="remove", _selected_action=[admin_user.pk], post="1")
    assert members(readers) == {alice.email, admin_user.email}
    for group in (readers, keepers):
        browser = with_session(admin_user)  # without a fresh proof
        answers = browser.get(f"{GROUPS}{group.pk}/"), post_to(browser, group, addresses=alice.email)
        asked = [answer.headers.get("Location", "").startswith("/accounts/confirm") for answer in answers]
        assert asked == [group is keepers] * 2
    assert members(keepers) == set()
    post_to(admin_client, keepers, addresses=alice.email)
    assert members(keepers) == {alice.email}


def test_members_are_searched_and_shown_page_by_page(admin_client: Client, readers: Group) -> None:
    people = [PersonFactory(email=f"p{number:02}@example.org", nickname=f"N{number:02}") for number in range(31)]
    readers.user_set.set(people)
    PersonFactory(nickname="N17 elsewhere")
    path = f"{GROUPS}{readers.pk}/"
    page = admin_client.get(path)
    assert ("31 members" in text_of(page), len(page.context["members"])) == (True, 30)
    assert [each.email for each, *_ in admin_client.get(page.context["next_url"]).context["members"]] == [
        "p30@example.org"
    ]
    assert [each.nickname for each, *_ in admin_client.get(path, {"q": "n17"}).context["members"]] == ["N17"]
    assert "Nothing fits" in text_of(admin_client.get(path, {"q": "\x00"}))


# The last administrator cannot be deleted, deactivated or demoted. P16 ------------------------------------------------


# A form of the page that keeps somebody an administrator.
KEPT = {"nickname": "Root", "is_staff": "on", "is_superuser": "on"}
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


def without(name: str) -> dict[str, str]:
    return {field: value for field, value in KEPT.items() if field != name}


WAYS: dict[str, tuple[str, Any]] = {
    "deactivated": (f"{PEOPLE}{{sub}}/?act=deactivate", {}),
    "no staff": (f"{PEOPLE}{{sub}}/change/", without("is_staff")),
    "no superuser": (f"{PEOPLE}{{sub}}/change/", without("is_superuser")),
    "deleted": (f"{PEOPLE}{{sub}}/delete/", {"post": "yes"}),
    "deleted with all others": (PEOPLE, {"action": "delete_selected", "post": "yes", "typed": "4"}),
    "deactivated with all others": (PEOPLE, {"action": "deactivate", "post": "yes"}),
    "left": ("/accounts/delete", {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_last_administrator_stays_and_the_page_says_what_to_do(
    admin_client: Client, admin_user: User, way: str
) -> None:
    path, form = WAYS[way]
    everybody = [str(pk) for pk in User.objects.values_list("pk", flat=True)]
    form = {"typed": admin_user.email, "email": admin_user.email, "_selected_action": everybody, **form}
    path, logged = path.format(sub=admin_user.pk), AuditEntry.objects.count()
    page = admin_client.post(path, form, follow=True)
    assert (SENTENCE if way != "left" else "You are the only administrator") in page.content.decode()
    assert (User.objects.count(), AuditEntry.objects.count()) == (len(everybody), logged)
    assert is_administrator(admin_user)
    if "all others" not in way:
        administrator()
        admin_client.post(path, form)
        assert not is_administrator(admin_user), "beside another, everybody may go"


def is_administrator(person: User) -> bool:
    return User.objects.filter(pk=person.pk, is_active=True, is_staff=True, is_superuser=True).exists()


def test_the_operators_command_keeps_the_last_administrator(admin_user: User) -> None:
    with pytest.raises(CommandError, match="Make another administrator first: make-administrator"):
        call_command("account", "deactivate", admin_user.email)
    assert is_administrator(admin_user)


def test_the_name_of_a_group_is_shown_as_it_was_typed(alice: User) -> None:
    """Also if it is a word of this service. The names of permissions are translated."""
    alice.groups.add(Group.objects.create(name="People"))
    alice.user_permissions.set(Permission.objects.filter(codename="view_user"))
    page = text_of(staff("view_user").get(f"{PEOPLE}{alice.pk}/change/", headers={"accept-language": "de"}))
    assert " People " in page
    assert "Can view person" not in page
