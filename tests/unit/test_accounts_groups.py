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
    group = Group.objects.create(name="keepers")
    group.permissions.set(Permission.objects.filter(codename="change_user"))
    return group


@pytest.fixture
def helper() -> Client:
    """The browser of an administrator with every permission on people and groups, who is no superuser."""
    return staff(*(f"{act}_{kind}" for act in ("add", "change", "delete", "view") for kind in ("user", "group")))


def change(browser: Client, person: User, *groups: Group, **fields: Any) -> Any:
    form = {"nickname": person.nickname, "groups": [group.pk for group in groups]}
    return browser.post(f"{PEOPLE}{person.pk}/change/", {**form, **fields})


@contract("D23.superuser")
def test_only_a_superuser_puts_people_into_a_group_with_permissions_and_takes_them_out(
    helper: Client, admin_client: Client, alice: User, readers: Group, keepers: Group
) -> None:
    assert "keepers" not in html_of(helper.get(f"{PEOPLE}{alice.pk}/change/"))
    for browser, chosen, stored in (
        (helper, [keepers], []),
        (admin_client, [keepers], [keepers]),
        (helper, [readers], [keepers, readers]),
        (helper, [], [keepers]),
        (admin_client, [], []),
    ):
        answer = change(browser, alice, *chosen)
        assert list(alice.groups.order_by("name")) == stored
        assert (answer.status_code == 200) is (chosen == [keepers] and not stored), "refused by the form"
    change(helper, alice, nickname="Zoe")
    assert list(AuditEntry.objects.latest("id").changes) == ["nickname"], "it doesn't say that groups changed"
    assert change(helper, User.objects.get(pk=helper.session["_auth_user_id"]), readers).status_code == 403


@contract("D23.superuser")
def test_only_a_superuser_gives_a_group_permissions_and_manages_one_with_permissions(
    helper: Client, admin_client: Client, readers: Group, keepers: Group
) -> None:
    permission = keepers.permissions.get()
    form = {"name": "renamed", "permissions": [permission.pk], "post": "yes"}
    assert helper.post(f"{GROUPS}{readers.pk}/change/", form).status_code == 302
    readers.refresh_from_db()
    assert (readers.name, readers.permissions.count()) == ("renamed", 0)
    helper.post(f"{GROUPS}add/", {**form, "name": "another"})
    assert not Group.objects.get(name="another").permissions.exists()
    for act in ("change", "delete"):
        assert helper.post(f"{GROUPS}{keepers.pk}/{act}/", form).status_code == 403
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
    admin_client: Client, readers: Group, alice: User, mallory: User
) -> None:
    readers.user_set.add(mallory)
    typed = f"Alice Liddell <{alice.email.upper()}>; {mallory.email},\nnobody@example.org ada"
    page = post_to(admin_client, readers, addresses=typed)
    assert members(readers) == {alice.email, mallory.email}
    said = text_of(page)
    for sentence in ("1 person is added. 1 needed no change.", "No account has: nobody@example.org, ada."):
        assert sentence in said
    assert page.context["form"]["addresses"].value() == "nobody@example.org\nada"
    trail = text_of(admin_client.get(f"{GROUPS}{readers.pk}/history/", follow=True))
    assert f"Changed the group Members Members {alice.display_name}" in trail
    many = " ".join(f"{number}@example.org" for number in range(1_001))
    assert "These are more than 1000." in text_of(post_to(admin_client, readers, addresses=many))


def test_the_chosen_people_are_removed_after_a_question(
    admin_client: Client, readers: Group, alice: User, mallory: User
) -> None:
    bob = PersonFactory()
    readers.user_set.set([alice, bob, mallory])
    chosen = {"action": "remove", "_selected_action": [alice.pk, bob.pk]}
    assert "Remove from readers: 2 chosen" in text_of(post_to(admin_client, readers, **chosen))
    assert len(members(readers)) == 3
    assert "2 chosen" in text_of(post_to(admin_client, readers, **chosen, post="1")), "the number before another"
    post_to(admin_client, readers, **chosen, post="2")
    assert members(readers) == {mallory.email}
    changes = dict(AuditEntry.objects.values_list("kind", "changes"))
    removed = sorted([str(alice.pk), str(bob.pk)])
    assert changes == {"person": {"groups": [["readers"], []]}, "group": {"members": [removed, []]}}
    for nobody in ([], [alice.pk]):
        post_to(admin_client, readers, action="remove", _selected_action=nobody, post="1")
    assert post_to(admin_client, readers, action="remove", _selected_action="x").status_code == 400
    assert members(readers) == {mallory.email}


def test_who_may_not_change_groups_and_people_changes_no_members(readers: Group, alice: User, mallory: User) -> None:
    readers.user_set.add(mallory)
    needed = {"change_group", "view_user", "change_user"}
    for lacking in needed:
        helper = staff("view_group", *needed - {lacking})
        for form in ({"addresses": alice.email}, {"action": "remove", "_selected_action": mallory.pk, "post": "1"}):
            assert post_to(helper, readers, **form).status_code == 403
        page = helper.get(f"{GROUPS}{readers.pk}/")
        shown = page.status_code, "Add people" in text_of(page), mallory.email in text_of(page)
        assert shown == (200, False, lacking != "view_user"), lacking
    assert staff("view_user", "change_user").get(f"{GROUPS}{readers.pk}/").status_code == 403
    assert members(readers) == {mallory.email}


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
    for found, nickname in ((page.context["next_url"], "N30"), (f"{path}?q=n17", "N17")):
        assert [each.nickname for each, *_ in admin_client.get(found).context["members"]] == [nickname]
    assert "Nothing fits" in text_of(admin_client.get(path, {"q": "\x00"}))


# The last administrator cannot be deleted, deactivated or demoted. P16 ------------------------------------------------

SENTENCE = "Nobody could administer the service then. Make somebody else an administrator with superuser status first."
MARKS = dict.fromkeys(("is_staff", "is_superuser", "is_active"), True)


@pytest.fixture
def admin_user() -> Any:
    User.objects.filter(is_superuser=True).delete()
    for name in MARKS:
        PersonFactory(**MARKS | {name: False})
    return PersonFactory(**MARKS)


WAYS: dict[str, tuple[str, Any]] = {
    "deactivated": (f"{PEOPLE}{{sub}}/?act=deactivate", {}),
    "no staff": (f"{PEOPLE}{{sub}}/change/", {"is_superuser": "on"}),
    "no superuser": (f"{PEOPLE}{{sub}}/change/", {"is_staff": "on"}),
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
    assert ("Nothing is saved yet" in page.content.decode()) is path.endswith("/change/"), "what was typed stays"
    assert (User.objects.count(), AuditEntry.objects.count()) == (len(everybody), logged)
    with pytest.raises(CommandError, match="Make another administrator with every right first: make-administrator"):
        call_command("account", "deactivate", admin_user.email)
    left = User.objects.filter(pk=admin_user.pk, **MARKS)
    assert left.exists()
    if "all others" not in way:
        PersonFactory(**MARKS)
        admin_client.post(path, form)
        assert not left.exists(), "beside another, everybody may go"


def test_the_name_of_a_group_is_shown_as_it_was_typed(alice: User) -> None:
    """Also if it is a word of this service. The names of permissions are translated."""
    alice.groups.add(Group.objects.create(name="People"))
    alice.user_permissions.set(Permission.objects.filter(codename="view_user"))
    page = text_of(staff("view_user").get(f"{PEOPLE}{alice.pk}/change/", headers={"accept-language": "de"}))
    assert (" People " in page, "Can view person" in page) == (True, False)
