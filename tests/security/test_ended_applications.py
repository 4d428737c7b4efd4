"""Codes and tokens from before an application was disabled stay invalid. D17."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from accounts.models import User
from oauth_bridge.applications.forms import ApplicationForm
from oauth_bridge.models import Consent
from oauth_bridge.storage import applications, codes
from tests.contract_coverage import contract
from tests.factories import PASSWORD, ApplicationFactory, Issued, Registered
from tests.grants import read, redeem
from tests.pages import admin_browser
from tests.security.test_ended_credentials import Held, issued

pytestmark = pytest.mark.django_db


def test_a_save_in_the_administration_brings_back_nothing_that_ended_meanwhile(
    application: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = ApplicationForm.clean

    def disabled_meanwhile(form: ApplicationForm) -> Any:
        switch = type(application.row).objects.get(pk=application.row.pk)
        applications.set_enabled(switch, False)
        applications.set_enabled(switch, True)
        return clean(form)

    monkeypatch.setattr(ApplicationForm, "clean", disabled_meanwhile)
    saved(application, name="Another name")
    application.row.refresh_from_db()
    assert application.row.name == "Another name"
    assert application.row.credentials_version == 2


def switched_by_operator(application: Registered) -> None:
    for action in ("disable", "enable"):
        call_command("application", action, application.client_id, stdout=io.StringIO())


def switched_by_action(application: Registered) -> None:
    office, form = admin_browser(), {"_selected_action": [str(application.row.pk)]}
    for action in ("disable", "enable"):
        office.post("/admin/oauth_bridge/application/", {"action": action, **form})


def switched_on_its_page(application: Registered) -> None:
    office = admin_browser()
    for act in ("switch-off", "switch-on"):
        office.post(f"/admin/oauth_bridge/application/{application.row.pk}/act/{act}/")


def switched_by_hand_and_by_operator(application: Registered) -> None:
    type(application.row).objects.filter(pk=application.row.pk).update(is_enabled=False)
    call_command("application", "enable", application.client_id, stdout=io.StringIO())


def saved(application: Registered, **fields: str) -> None:
    row = application.row
    form = {"name": row.name, "homepage": row.homepage, "redirect_uris": row.redirect_uris, **fields}
    answered = admin_browser().post(f"/admin/oauth_bridge/application/{row.pk}/change/", form)
    assert answered.status_code == 302, answered.context["errors"]


@contract("D17.enabled")
@pytest.mark.integration
@pytest.mark.parametrize(
    "switch", [switched_by_operator, switched_by_action, switched_on_its_page, switched_by_hand_and_by_operator]
)
def test_an_application_that_was_disabled_and_enabled_begins_anew(
    alice: User, application: Registered, switch: Callable[[Registered], None]
) -> None:
    held, others = Held(alice, application), Held(alice, ApplicationFactory())
    row = application.row
    before = row.credentials_version
    switch(application)
    row.refresh_from_db()
    assert row.is_enabled
    assert row.credentials_version > before
    lives = held.lives(PASSWORD)
    assert not lives["code"]
    assert not lives["token"]
    assert Consent.objects.filter(application=row).exists()
    assert all(others.lives(PASSWORD).values())
    assert read(redeem(application, issued(held.browser, application)).json()["access_token"]).status_code == 200


def test_enabling_an_enabled_application_ends_nothing(alice: User, application: Registered) -> None:
    held = Held(alice, application)
    call_command("application", "enable", application.client_id, stdout=io.StringIO())
    saved(application)
    assert all(held.lives(PASSWORD).values())


def test_a_code_of_a_page_that_was_open_while_the_application_was_switched_is_void(
    alice: User, application: Registered
) -> None:
    read_before = applications.find(application.client_id)
    assert read_before
    switched_by_operator(application)
    code = codes.issue(codes.Attempt(uuid4(), read_before, application.redirect_uri, "profile", ""), alice)
    assert "has been revoked" in redeem(application, Issued(code, None)).json()["error_description"]
