"""The groups of an application: Django admin, statements, and what the person learns. D23."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import AuditEntry, User
from oauth_bridge.applications import registry
from oauth_bridge.credentials import admission, code_redemption, tokens
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.models import Application
from tests.factories import CodeFactory, PersonFactory, Registered, TokenFactory
from tests.grants import PAGE, link_of, read
from tests.pages import browser_of, html_of, text_of, with_session

pytestmark = pytest.mark.django_db


@pytest.fixture
def readers() -> Group:
    return Group.objects.create(name="readers")


def groups_of(application: Registered) -> tuple[bool, list[str]]:
    return groups_of_row(Application.objects.get(pk=application.row.pk))


def groups_of_row(row: Application) -> tuple[bool, list[str]]:
    return row.is_restricted, sorted(row.groups.values_list("name", flat=True))


def saved(browser: Client, application: Registered, **fields: Any) -> Any:
    """The errors of the form, if any."""
    row = application.row
    form = {"name": row.name, "homepage": row.homepage, "redirect_uris": row.redirect_uris, "is_enabled": "on"}
    page = browser.post(f"/admin/oauth_bridge/application/{row.pk}/change/", {**form, **fields})
    return [] if page.status_code == 302 else list(page.context["adminform"].form.errors)


def test_the_form_chooses_the_groups(admin_client: Client, application: Registered, readers: Group) -> None:
    assert saved(admin_client, application, is_restricted="on", groups=[readers.pk]) == []
    assert groups_of(application) == (True, ["readers"])
    assert saved(admin_client, application) == []
    assert groups_of(application) == (False, [])
    form = {"name": "Inner", "redirect_uris": "https://inner.example/cb", "client_type": "public", "is_enabled": "on"}
    admin_client.post("/admin/oauth_bridge/application/add/", {**form, "is_restricted": "on", "groups": [readers.pk]})
    row = Application.objects.get(name="Inner")
    assert (row.is_restricted, row.groups.get()) == (True, readers)


def test_a_new_group_is_made_on_the_form_by_those_who_may_add_groups(application: Registered) -> None:
    person = PersonFactory(is_staff=True)
    browser = with_session(person)
    form = {"name": "Inner", "redirect_uris": "https://inner.example/cb", "client_type": "public"}
    wanted = {**form, "new_group": " Writers "}
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="oauth_bridge"))
    browser.post("/admin/oauth_bridge/application/add/", wanted | {"name": "Open"})
    assert Application.objects.filter(name="Open").exists()
    assert not Group.objects.exists()
    person.user_permissions.add(Permission.objects.get(codename="add_group"))
    browser.post("/admin/oauth_bridge/application/add/", wanted)
    assert groups_of_row(Application.objects.get(name="Inner")) == (True, ["Writers"])
    assert saved(browser, application, is_restricted="on", new_group="Writers") == []
    assert groups_of(application) == (True, ["Writers"])
    assert not Group.objects.get().permissions.exists()
    assert AuditEntry.objects.get(action="group_created").name == "Writers"


def test_the_page_of_a_group_lists_the_applications_that_it_opens(
    admin_client: Client, application: Registered, readers: Group
) -> None:
    other = PersonFactory(is_staff=True)
    other.user_permissions.set(Permission.objects.filter(codename="view_group"))
    path = f"/admin/auth/group/{readers.pk}/"
    assert application.row.name not in text_of(admin_client.get(path))
    registry.set_groups(application.row, [readers])
    assert application.row.name in text_of(admin_client.get(path))
    assert application.row.name not in text_of(with_session(other).get(path))
    for page in (f"/admin/oauth_bridge/application/{application.row.pk}/", "/admin/auth/group/"):
        assert f'href="{path}"' in html_of(admin_client.get(page))


def test_half_a_change_is_refused_and_another_opens_no_application_whose_groups_were_deleted(
    admin_client: Client, application: Registered, readers: Group
) -> None:
    assert saved(admin_client, application, is_restricted="on") == ["groups"]
    assert saved(admin_client, application, groups=[readers.pk]) == ["is_restricted"]
    pk = readers.pk
    readers.delete()  # while the form is open
    assert saved(admin_client, application, is_restricted="on", groups=[pk]) == ["groups"]
    assert groups_of(application) == (False, [])
    registry.set_groups(application.row, [again := Group.objects.create(name="readers")])
    again.delete()
    assert saved(admin_client, application, is_restricted="on", name="Renamed") == []
    assert groups_of(application) == (True, [])
    assert Application.objects.get(name="Renamed")


def test_a_person_in_two_of_the_groups_learns_them_and_gets_one_profile(
    alice: User, application: Registered, readers: Group
) -> None:
    chosen = [readers, Group.objects.create(name="writers")]
    registry.set_groups(application.row, chosen)
    alice.groups.set(chosen)
    assert read(TokenFactory(application=application, user=alice).raw).status_code == 200
    browser = browser_of(alice)
    page = browser.get(f"{link_of(application)}&scope=openid+groups", headers=PAGE, follow=True)
    assert "readers, writers" in text_of(page)
    assert browser.post("/accounts/export").json()["groups"] == ["readers", "writers"]


def test_who_may_not_use_it_need_not_confirm_an_address_first(application: Registered, readers: Group) -> None:
    registry.set_groups(application.row, [readers])
    browser = with_session(PersonFactory(email_verified_at=None))
    assert "is for certain people only" in html_of(browser.get(link_of(application), headers=PAGE))


def test_only_an_application_with_groups_costs_a_statement_more(
    alice: User, application: Registered, readers: Group
) -> None:
    token = TokenFactory(application=application, user=alice).raw
    for has_groups in (False, True):
        with CaptureQueriesContext(connection) as captured:
            assert admission.is_admitted(alice, application.row)
        assert len(captured) == has_groups
        with CaptureQueriesContext(connection) as captured:
            assert tokens.read(token).user == alice
        assert len(captured) == 1 + has_groups
        registry.set_groups(application.row, [readers])
        alice.groups.add(readers)
    alice.groups.clear()
    assert not admission.is_admitted(alice, application.row)


@pytest.mark.integration
def test_an_exchange_that_read_the_application_before_groups_were_chosen_redeems_nothing(
    application: Registered, readers: Group
) -> None:
    code = CodeFactory(application=application)

    def redeemed(is_restricted: bool) -> bool:
        form, pk = {"code": code.raw}, application.row.pk
        return bool(code_redemption.redeem(form, pk, new_credential(), is_restricted=is_restricted))

    registry.set_groups(application.row, [readers])
    assert [redeemed(False), redeemed(True)] == [False, False]
    registry.set_groups(application.row, [])
    assert redeemed(True)
