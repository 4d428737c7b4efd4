"""What the administration's pages lead to, where that is the fix, and what they ask before many are deleted. D24."""

from __future__ import annotations

import logging.config
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

import manage
from accounts.models import User
from config import logs
from oauth_bridge.activity_models import ActivityRecord, Outcome, Step
from oauth_bridge.administration import record
from oauth_bridge.administration.waiting import LOOKS_EVERY_SECONDS, LOOKS_WITHOUT_SCRIPT_SECONDS
from oauth_bridge.models import Application
from tests.events import HTML, Attempt
from tests.factories import ApplicationFactory, PersonFactory, Registered
from tests.pages import admin_browser, html_of, proven, text_of, with_session
from tests.unit.test_administration import staff

pytestmark = pytest.mark.django_db

PEOPLE = "/admin/accounts/user/"
READER = ("oauth_bridge.view_activityrecord", "oauth_bridge.view_application")


@pytest.fixture
def grace() -> Client:
    return admin_browser()


@pytest.fixture
def application() -> Registered:
    made: Registered = ApplicationFactory()
    return made


def record_of(cause: str, client_id: str = "", person: User | None = None) -> str:
    """The page of a record with this cause."""
    made = ActivityRecord.objects.create(
        at=timezone.now(), step=Step.EXCHANGE, outcome=Outcome.REFUSED, cause=cause, client_id=client_id, person=person
    )
    return reverse("admin:record", args=[made.pk])


# From a record to its fix --------------------------------------------------------------------------------------------


def test_a_record_leads_to_switching_the_application_on(grace: Client, application: Registered) -> None:
    switch_on = reverse("admin:application_act", args=[application.row.pk, "switch-on"])
    page = record_of("client_disabled", application.client_id)
    assert switch_on not in html_of(grace.get(page)), "it is switched on already"
    Application.objects.filter(pk=application.row.pk).update(is_enabled=False)
    assert f'href="{switch_on}"' in html_of(grace.get(page))
    assert switch_on not in html_of(staff(*READER).get(page))


@pytest.mark.parametrize("cause", sorted(record.OF_THE_SECRET))
def test_a_record_leads_to_a_new_secret(grace: Client, application: Registered, cause: str) -> None:
    secret = reverse("admin:oauth_bridge_application_secret", args=[application.row.pk])
    page = record_of(cause, application.client_id)
    assert f'href="{secret}"' in html_of(grace.get(page))
    assert secret not in html_of(staff(*READER).get(page))
    owner = PersonFactory(is_staff=True)
    application.row.owners.add(owner)
    assert f'href="{secret}"' in html_of(with_session(owner).get(page))
    Application.objects.filter(pk=application.row.pk).update(client_type="public")
    assert secret not in html_of(grace.get(page))


@pytest.mark.parametrize(
    ("cause", "act", "fields"),
    [
        ("account_inactive", "activate", {"is_active": False}),
        ("person_deactivated", "activate", {"is_active": False}),
        ("no_verified_email", "confirm", {"email_verified_at": None}),
        ("sign_in_limited_account", "unlock", {}),
        ("factor_limited", "unlock", {}),
    ],
)
def test_a_record_leads_to_the_act_on_its_person(grace: Client, cause: str, act: str, fields: dict[str, Any]) -> None:
    person = PersonFactory()
    page = record_of(cause, person=person)
    url = f"{reverse('admin:person', args=[person.pk])}?act={act}"
    if fields:
        assert url not in html_of(grace.get(page)), "nothing is to be done"
    User.objects.filter(pk=person.pk).update(**fields)
    assert f'href="{url}"' in html_of(grace.get(page))
    assert url not in html_of(staff("oauth_bridge.view_activityrecord", "accounts.view_user").get(page))


def test_only_who_may_change_the_addresses_is_led_to_adding_one(grace: Client) -> None:
    attempt = Attempt()
    attempt.browser.get(attempt.link(redirect_uri="https://www.client.example/callback"), **HTML)
    page = reverse("admin:record", args=[ActivityRecord.objects.get().pk])
    assert "add-address" in html_of(grace.get(page))
    assert "add-address" not in html_of(staff(*READER).get(page))


# An address that is not confirmed -------------------------------------------------------------------------------------


def test_a_person_whose_address_is_not_confirmed_is_told_apart_and_can_be_confirmed(grace: Client) -> None:
    person = PersonFactory(email_verified_at=None)
    page = reverse("admin:person", args=[person.pk])
    said = text_of(grace.get(page))
    assert "The address is not confirmed, so no application lets this person in." in said
    assert '<span class="badge warning">Not confirmed</span>' in html_of(grace.get(page))
    assert "The address is confirmed." in text_of(grace.post(f"{page}?act=confirm", follow=True))
    person.refresh_from_db()
    assert person.email_verified_at
    assert "act=confirm" not in html_of(grace.get(page))


# Many at once ---------------------------------------------------------------------------------------------------------


def test_many_people_are_deleted_once_their_number_is_typed() -> None:
    administrator = PersonFactory(is_staff=True, is_superuser=True)
    browser = proven(with_session(administrator))
    chosen = [str(PersonFactory().pk) for _ in range(3)]
    form = {"action": "delete_selected", "_selected_action": chosen}
    assert "To delete all of them, type their number, 3" in text_of(browser.post(PEOPLE, form))
    for typed in ("", "2", "three"):
        said = text_of(browser.post(PEOPLE, {**form, "post": "yes", "typed": typed}, follow=True))
        assert "What you typed is something else. Nothing is deleted." in said
    assert User.objects.filter(pk__in=chosen).count() == 3
    browser.post(PEOPLE, {**form, "post": "yes", "typed": " 3 "})
    assert not User.objects.filter(pk__in=chosen).exists()


# The page that waits --------------------------------------------------------------------------------------------------


def test_the_page_that_waits_looks_again_within_two_seconds(grace: Client, application: Registered) -> None:
    since = (timezone.now() - timedelta(minutes=1)).isoformat()[:19]
    page = html_of(grace.get(reverse("admin:waiting", args=[application.row.pk]), {"since": f"{since}Z"}))
    assert max(LOOKS_EVERY_SECONDS, LOOKS_WITHOUT_SCRIPT_SECONDS) <= 2
    assert f'<meta http-equiv="refresh" content="{LOOKS_WITHOUT_SCRIPT_SECONDS}">' in page
    assert f'data-live="{LOOKS_EVERY_SECONDS}"' in page


# The commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """A command sets logging up anew."""
    yield
    logs.settings({})["handlers"]["stderr"].pop("level", None)
    logging.config.dictConfig(logs.settings({}))


@pytest.mark.parametrize(
    ("command", "is_terminal", "level"),
    [("application", True, "WARNING"), ("application", False, "NOTSET"), ("purge", True, "NOTSET")],
)
def test_a_command_that_is_typed_writes_no_events_to_the_terminal(
    logging_restored: None, monkeypatch: pytest.MonkeyPatch, command: str, is_terminal: bool, level: str
) -> None:
    handler = logs.settings({})["handlers"]["stderr"]
    monkeypatch.setitem(handler, "level", "NOTSET")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "argv", ["manage.py", command, "--help"])
    with pytest.raises(SystemExit):
        manage.main()
    assert handler["level"] == level
