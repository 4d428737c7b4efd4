"""Whose a record is: that of a present address, which is in the export and goes with the person. D24."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import User
from oauth_bridge.activity import counts
from oauth_bridge.consent.account_pages import stored_about
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import PASSWORD, PersonFactory
from tests.grants import HTML
from tests.pages import browser_of, html_of

pytestmark = pytest.mark.django_db
OLD = "old@example.com"
BEFORE_VALUES = re.compile("[^'0-9]*")


def type_in(address: str, password: str = "wrong") -> Any:
    answer = Client().post("/accounts/sign-in", {"login": address, "password": password}, **HTML)
    counts.flush()
    return answer


@pytest.fixture
def person() -> Any:
    return PersonFactory(email=OLD)


def exported(person: User) -> list[str]:
    return [entry["cause"] for entry in stored_about(person, 100)["activity"]]


def test_the_export_of_a_person_has_their_records(person: User) -> None:
    type_in(OLD)
    data = browser_of(person).post("/accounts/export").json()
    assert [entry["cause"] for entry in data["activity"]] == ["password_wrong"]


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_who_signs_in_with_an_address_gets_its_records_if_it_is_confirmed(is_confirmed: bool) -> None:
    type_in(OLD)
    assert ActivityRecord.objects.get().login_mark
    person = PersonFactory(email=OLD, **({} if is_confirmed else {"email_verified_at": None}))
    type_in(OLD, PASSWORD)
    assert ("account_unknown" in exported(person)) is is_confirmed


def test_the_page_of_a_switched_off_account_shows_the_reference_of_its_record() -> None:
    person = PersonFactory(is_active=False)
    answer = type_in(person.email, PASSWORD)
    record = ActivityRecord.objects.get()
    assert (record.cause, record.person_id) == ("account_inactive", person.pk)
    assert f"<code>{record.reference}</code>" in answer.text


# A limit -------------------------------------------------------------------------------------------------------------


def test_the_record_of_a_limit_names_the_person_and_leads_to_unlock(grace: Client, person: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "1/h"}
    for _ in range(2):
        type_in(OLD)
    record = ActivityRecord.objects.get(cause="sign_in_limited_account")
    assert (record.person_id, record.login_mark) == (person.pk, None)
    assert 3500 < record.detail["seconds"] <= 3600
    page = html_of(grace.get(reverse("admin:record", args=[record.pk])))
    url = reverse("admin:person", args=[person.pk])
    assert f'href="{url}"' in page
    assert f'href="{url}?act=unlock"' in page


@pytest.mark.integration
def test_a_limit_costs_the_same_with_and_without_an_account(person: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "1/h"}
    statements = []
    for address in (OLD, "nobody@example.com"):
        type_in(address)
        with CaptureQueriesContext(connection) as captured:
            type_in(address)
        statements.append([BEFORE_VALUES.match(query["sql"])[0] for query in captured])
    assert statements[0] == statements[1]
    nobodys = ActivityRecord.objects.filter(cause="sign_in_limited_account", person=None).get()
    assert nobodys.login_mark
