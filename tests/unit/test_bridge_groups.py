"""The groups of an application: Django admin, the command line, statements. D23."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from oauth_bridge.models import Application
from oauth_bridge.random_values import new_credential
from oauth_bridge.storage import admission, applications, code_redemption, tokens
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.grants import PAGE, link_of, read
from tests.pages import browser_of, text_of, with_session

pytestmark = pytest.mark.django_db

LIST = "/admin/oauth_bridge/application/"


@pytest.fixture
def readers() -> Group:
    return Group.objects.create(name="readers")


def groups_of(application: Registered) -> tuple[bool, list[str]]:
    row = Application.objects.get(pk=application.row.pk)
    return row.is_restricted, sorted(row.groups.values_list("name", flat=True))


# What it costs --------------------------------------------------------------------------------------------------------


def test_an_application_for_everybody_reads_no_group(alice: User, application: Registered, readers: Group) -> None:
    with CaptureQueriesContext(connection) as statements:
        assert admission.is_admitted(alice, application.row)
    assert not statements.captured_queries
    applications.set_groups(application.row, [readers])
    with CaptureQueriesContext(connection) as statements:
        assert not admission.is_admitted(alice, application.row)
    assert len(statements) == 1


def test_a_person_in_two_of_the_groups_gets_one_profile(alice: User, application: Registered, readers: Group) -> None:
    chosen = [readers, Group.objects.create(name="writers")]
    applications.set_groups(application.row, chosen)
    alice.groups.set(chosen)
    assert read(TokenFactory(application=application, user=alice).raw).status_code == 200


def test_who_may_not_use_it_need_not_confirm_an_address_first(application: Registered, readers: Group) -> None:
    applications.set_groups(application.row, [readers])
    browser = with_session(PersonFactory(email_verified_at=None))
    assert b"is for certain people only" in browser.get(link_of(application), headers=PAGE).content


# The application's form -----------------------------------------------------------------------------------------------


def saved(browser: Client, application: Registered, **fields: Any) -> Any:
    row = application.row
    form = {"name": row.name, "homepage": row.homepage, "redirect_uris": row.redirect_uris, "is_enabled": "on"}
    return browser.post(f"{LIST}{row.pk}/change/", {**form, **fields})


def test_the_form_chooses_the_groups(admin_client: Client, application: Registered, readers: Group) -> None:
    assert saved(admin_client, application, is_restricted="on", groups=[readers.pk]).status_code == 302
    assert groups_of(application) == (True, ["readers"])
    assert saved(admin_client, application).status_code == 302
    assert groups_of(application) == (False, [])


def test_an_application_is_registered_for_some_people(admin_client: Client, readers: Group) -> None:
    form = {"name": "Inner", "redirect_uris": "https://inner.example/cb", "client_type": "public", "is_enabled": "on"}
    answer = admin_client.post(f"{LIST}add/", {**form, "is_restricted": "on", "groups": [readers.pk]})
    assert answer.status_code == 302
    row = Application.objects.get()
    assert row.is_restricted
    assert [group.name for group in row.groups.all()] == ["readers"]


@pytest.mark.parametrize(("is_restricted", "chosen", "field"), [("on", False, "groups"), ("", True, "is_restricted")])
def test_half_a_change_is_refused(
    admin_client: Client, application: Registered, readers: Group, is_restricted: str, chosen: bool, field: str
) -> None:
    page = saved(admin_client, application, is_restricted=is_restricted, groups=[readers.pk] if chosen else [])
    assert list(page.context["adminform"].form.errors) == [field]
    assert groups_of(application) == (False, [])


def test_another_change_does_not_open_an_application_whose_groups_were_deleted(
    admin_client: Client, application: Registered, readers: Group
) -> None:
    applications.set_groups(application.row, [readers])
    readers.delete()
    assert saved(admin_client, application, is_restricted="on", name="Renamed").status_code == 302
    assert groups_of(application) == (True, [])
    assert Application.objects.get(name="Renamed")


def test_a_group_that_is_deleted_while_the_form_is_open_is_named(
    admin_client: Client, application: Registered, readers: Group
) -> None:
    pk = readers.pk
    readers.delete()
    page = saved(admin_client, application, is_restricted="on", groups=[pk])
    assert "groups" in page.context["adminform"].form.errors
    assert groups_of(application) == (False, [])


def test_who_may_only_look_changes_no_group(application: Registered, readers: Group) -> None:
    viewer = PersonFactory(is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_application"))
    assert saved(with_session(viewer), application, is_restricted="on", groups=[readers.pk]).status_code == 403
    assert groups_of(application) == (False, [])


def test_deleting_an_application_deletes_no_group(
    admin_client: Client, application: Registered, readers: Group
) -> None:
    applications.set_groups(application.row, [readers])
    admin_client.post(f"{LIST}{application.row.pk}/delete/", {"post": "yes", "typed": application.row.name})
    assert not Application.objects.exists()
    assert not Application.groups.through.objects.exists()
    assert Group.objects.get() == readers


# The command line -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("application", *arguments, stdout=out)
    return out.getvalue()


def described(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


@contract("O.application.set")
def test_set_replaces_the_groups_and_makes_those_that_do_not_exist(readers: Group) -> None:
    application = ApplicationFactory()
    changed = described("set", application.client_id, "--group", "readers", "--group", "new ones")
    assert changed["groups"] == ["new ones", "readers"]
    assert not Group.objects.get(name="new ones").permissions.exists()
    assert groups_of(application) == (True, ["new ones", "readers"])
    assert described("set", application.client_id, "--group", "readers")["groups"] == ["readers"]
    assert described("show", application.client_id)["restricted"] is True
    assert described("set", application.client_id, "--group", "")["groups"] == []
    assert groups_of(application) == (False, [])
    assert Group.objects.count() == 2


def test_an_application_is_created_with_groups() -> None:
    created = described("create", "Inner", "--redirect-uri", "https://inner.example/cb", "--group", "readers")
    assert set(created) == {"client_id", "client_secret", "name", "redirect_uris"}
    [listed] = described("list")
    assert (listed["restricted"], listed["groups"]) == (True, ["readers"])
    assert "readers" in run("show", created["client_id"])


@pytest.mark.parametrize("names", [["x" * 151], ["a\x00b"], ["", "readers"], ["readers", " "]])
def test_a_name_that_no_group_can_have_changes_nothing_and_names_the_field(names: list[str]) -> None:
    application = ApplicationFactory()
    with pytest.raises(CommandError, match=r"^--group: "):
        run("set", application.client_id, *(f"--group={name}" for name in names))
    assert groups_of(application) == (False, [])
    assert not Group.objects.exists()


def test_set_without_a_change_says_so() -> None:
    with pytest.raises(CommandError, match="Nothing to change"):
        run("set", ApplicationFactory().client_id)


def test_a_create_that_fails_makes_no_group_and_names_the_field() -> None:
    with pytest.raises(CommandError, match=r"^--redirect-uri: "):
        run("create", "Inner", "--redirect-uri", "http://inner.example/cb", "--group", "readers")
    assert not Group.objects.exists()


# The person -----------------------------------------------------------------------------------------------------------


def test_the_persons_file_names_the_groups(alice: User, readers: Group) -> None:
    alice.groups.add(readers)
    assert browser_of(alice).post("/accounts/export").json()["groups"] == ["readers"]


def test_a_profile_of_an_application_with_groups_costs_one_statement_more(
    alice: User, application: Registered, readers: Group
) -> None:
    token = TokenFactory(application=application, user=alice).raw
    for expected in (1, 2):
        with CaptureQueriesContext(connection) as captured:
            assert tokens.read(token).user == alice
        assert len(captured) == expected
        applications.set_groups(application.row, [readers])
        alice.groups.add(readers)


def test_an_exchange_that_read_the_application_before_groups_were_chosen_redeems_nothing(
    application: Registered, readers: Group
) -> None:
    code = CodeFactory(application=application)
    applications.set_groups(application.row, [readers])
    assert code_redemption.redeem({"code": code.raw}, application.row.pk, new_credential(), is_restricted=False) is None
    assert code_redemption.redeem({"code": code.raw}, application.row.pk, new_credential(), is_restricted=True) is None
    applications.set_groups(application.row, [])
    assert code_redemption.redeem({"code": code.raw}, application.row.pk, new_credential(), is_restricted=True)


def test_the_consent_page_lists_the_groups_that_the_application_learns(
    alice: User, application: Registered, readers: Group
) -> None:
    chosen = [readers, Group.objects.create(name="writers")]
    applications.set_groups(application.row, chosen)
    alice.groups.set(chosen)
    page = browser_of(alice).get(f"{link_of(application)}&scope=openid+groups", **PAGE, follow=True)
    assert "readers, writers" in text_of(page)
