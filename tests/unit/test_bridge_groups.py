"""The groups of an application: Django admin, statements, and what the person learns. D23."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from accounts.models import User
from oauth_bridge.applications import registry
from oauth_bridge.credentials import code_redemption
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
    row = Application.objects.get(pk=application.row.pk)
    return row.is_restricted, sorted(row.groups.values_list("name", flat=True))


def saved(browser: Client, application: Registered, **fields: Any) -> Any:
    """The errors of the form, if any."""
    row = application.row
    form = {"name": row.name, "homepage": row.homepage, "redirect_uris": row.redirect_uris, "is_enabled": "on"}
    page = browser.post(f"/admin/oauth_bridge/application/{row.pk}/change/", {**form, **fields})
    return [] if page.status_code == 302 else list(page.context["adminform"].form.errors)


def test_the_form_chooses_the_groups_and_half_a_change_is_refused(
    admin_client: Client, application: Registered
) -> None:
    add, new = "/admin/oauth_bridge/application/add/", {"name": "Inner", "redirect_uris": "https://inner.example/cb"}
    new |= {"client_type": "public", "is_restricted": "on"}
    assert "First make one under Groups" in text_of(admin_client.post(add, new))
    readers = Group.objects.create(name="readers")
    assert "Choose at least one group" in text_of(admin_client.post(add, new))
    admin_client.post(add, {**new, "groups": [readers.pk]})
    row = Application.objects.get(name="Inner")
    assert (row.is_restricted, row.groups.get()) == (True, readers)
    assert saved(admin_client, application, is_restricted="on", groups=[readers.pk]) == []
    assert groups_of(application) == (True, ["readers"])
    assert saved(admin_client, application) == []
    assert groups_of(application) == (False, [])
    assert saved(admin_client, application, is_restricted="on") == ["groups"]
    assert saved(admin_client, application, groups=[readers.pk]) == ["is_restricted"]
    pk = readers.pk
    readers.delete()  # while the form is open
    assert saved(admin_client, application, is_restricted="on", groups=[pk]) == ["groups"]
    assert groups_of(application) == (False, [])
    registry.set_groups(application.row, [again := Group.objects.create(name="readers")])
    again.delete()
    assert saved(admin_client, application, is_restricted="on", name="Renamed") == []
    assert groups_of(application) == (True, []), "another change opens no application whose groups were deleted"
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
