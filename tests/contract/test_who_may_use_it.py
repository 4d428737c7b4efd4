"""Who may use an application: everybody, or people in groups that an administrator chose for it. D23."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import requests
from django.contrib.auth.models import Group

from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from tests.contract_coverage import contract
from tests.driver import Callback, OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory


@pytest.fixture
def group(committed: None) -> Group:
    return Group.objects.create(name=f"readers {uuid4().hex[:8]}")


@pytest.fixture
def restricted(application: Registered, group: Group) -> Registered:
    registry.set_groups(application.row, [group])
    return application


def turned_away(driver: OAuthDriver, response: requests.Response, application: Registered) -> Callback:
    """Check the page for people who may not use the application. Return the address that it links to."""
    page = Page(response)
    assert response.status_code == 403
    assert f"{application.row.name} is for certain people only" in page.text
    [callback] = [Callback(link) for link in page.links if link.startswith(application.redirect_uri)]
    assert "no-store" in response.headers["Cache-Control"]
    return callback


@contract("D23.members")
def test_a_person_in_one_group_signs_in(driver: OAuthDriver, restricted: Registered, group: Group, alice: Any) -> None:
    """A group that is renamed stays chosen, and another one takes its name."""
    registry.set_groups(restricted.row, [group, Group.objects.create(name=uuid4().hex)])
    alice.groups.add(group, Group.objects.create(name=uuid4().hex))
    callback = driver.authorize(driver.authorization_url(restricted), alice.email, PASSWORD)
    token = driver.exchange(restricted, callback.parameters["code"]).json()["access_token"]
    name, group.name = group.name, uuid4().hex
    group.save()
    Group.objects.create(name=name)
    assert driver.userinfo(token).json()["sub"] == str(alice.pk)


@pytest.mark.integration
@contract("D23.page", "D23.everybody")
def test_a_person_in_no_group_is_told_so_and_led_back(driver: OAuthDriver, restricted: Registered, alice: Any) -> None:
    alice.groups.add(Group.objects.create(name=uuid4().hex))
    page = driver.open(driver.authorization_url(restricted, state="a b"))
    assert "certain people" not in page.text, "nobody who is not signed in learns it"
    response = driver.sign_in(page, alice.email, PASSWORD)
    callback = turned_away(driver, response, restricted)
    assert callback.address == restricted.redirect_uri
    assert callback.parameters.keys() == {"error", "error_description", "state"}
    assert (callback.parameters["error"], callback.raw("state")) == ("access_denied", "a%20b")
    assert alice.email not in callback.url
    assert str(alice.pk) not in callback.url
    registry.set_groups(restricted.row, [])
    code = driver.callback(driver.decide(driver.open(page.url))).parameters["code"]
    assert driver.exchange(restricted, code).status_code == 200, "without groups it is for everybody"


@contract("D23.page")
def test_the_page_leads_to_another_account(
    driver: OAuthDriver, restricted: Registered, group: Group, alice: Any, mallory: Any
) -> None:
    alice.groups.add(group)
    response = driver.consent_page(restricted, mallory.email, PASSWORD, state="s")
    [switch] = [form for form in Page(response).forms if "next" in form.fields and "sign-out" in form.action]
    page = driver.sign_in(driver.submit(switch), alice.email, PASSWORD)
    assert driver.callback(driver.decide(page)).parameters["state"] == "s"


@contract("D23.always")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_it_holds_if_nobody_is_asked(driver: OAuthDriver, restricted: Registered, alice: Any, is_trusted: bool) -> None:
    type(restricted.row).objects.filter(pk=restricted.row.pk).update(is_trusted=is_trusted)
    if not is_trusted:
        consents.remember(alice, restricted.row)
    turned_away(driver, driver.consent_page(restricted, alice.email, PASSWORD), restricted)


@contract("D23.always")
def test_it_holds_for_a_consent_page_from_before_and_ends_its_code(
    driver: OAuthDriver, application: Registered, group: Group, alice: Any
) -> None:
    page = driver.consent_page(application, alice.email, PASSWORD)
    alice.groups.add(group)
    registry.set_groups(application.row, [group])
    code = driver.callback(driver.decide(page)).parameters["code"]
    alice.groups.remove(group)
    callback = turned_away(driver, driver.decide(page, remember=True), application)
    alice.groups.add(group)
    error_of(driver.exchange(application, code), 400, "invalid_grant")
    alice.groups.remove(group)
    assert callback.parameters["error"] == "access_denied"
    assert not consents.is_remembered(alice, application.row)
    assert driver.callback(driver.decide(page, "refuse")).parameters["error"] == "access_denied"
    turned_away(driver, driver.open(page.url), application)


@pytest.mark.integration
@contract("D23.leaving", "D23.deleted")
@pytest.mark.parametrize("way", ["leaving", "choosing", "deleting"])
def test_who_is_in_none_of_the_groups_any_more_loses_codes_and_tokens_at_once(
    driver: OAuthDriver, group: Group, alice: Any, mallory: Any, way: str
) -> None:
    application = ApplicationFactory(is_trusted=way == "leaving")
    alice.groups.add(group)
    if way != "choosing":
        mallory.groups.add(group)
        registry.set_groups(application.row, [group])
    kept, ended = (TokenFactory(application=application, user=person).raw for person in (alice, mallory))
    code, others = CodeFactory(application=application, user=mallory), TokenFactory(user=mallory)
    assert driver.userinfo(ended).status_code == 200
    {
        "leaving": lambda: mallory.groups.remove(group),
        "choosing": lambda: registry.set_groups(application.row, [group]),
        "deleting": group.delete,
    }[way]()
    assert "The code has been revoked." in error_of(driver.exchange(application, code.raw), 400, "invalid_grant")
    assert "The access token has been revoked." in error_of(driver.userinfo(ended), 401, "invalid_token")
    assert driver.userinfo(others.raw).status_code == 200
    assert driver.userinfo(kept).status_code == (401 if way == "deleting" else 200)
    turned_away(driver, driver.consent_page(application, mallory.email, PASSWORD), application)
