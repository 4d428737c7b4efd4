"""A refusal names the application whose authorization request it stops. D24."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from oauth_bridge.activity_models import ActivityRecord
from tests.events import HTML, Attempt, Log

pytestmark = pytest.mark.django_db


def refused_at(page: str, given: Attempt) -> int:
    """The number of statements for a wrong password at the page."""
    with CaptureQueriesContext(connection) as statements:
        given.post(page, {"login": given.person.email, "password": "wrong"})
    return len(statements)


def test_a_wrong_password_names_the_application_without_a_further_statement(event_log: Log) -> None:
    given = Attempt()
    page = given.browser.get(given.link(), **HTML)["Location"]
    statements = refused_at(page, given)
    refused, record = event_log.of("refused")[-1], ActivityRecord.objects.get()
    assert refused["client_id"] == record.client_id == given.application.client_id
    assert refused["reference"] == record.reference
    refused_at("/accounts/sign-in?next=/accounts/profile", given)  # makes the row of the count without application
    assert "client_id" not in event_log.of("refused")[-1]
    assert refused_at("/accounts/sign-in?next=/accounts/profile", given) == statements


def test_an_answer_from_another_origin_is_an_event_and_no_record(
    event_log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "config.access")
    given = Attempt()
    given.browser = Client(enforce_csrf_checks=True)
    form = given.form(decision="allow")
    answer = given.browser.post("/oauth/authorize", form, headers={"Origin": "https://mallory.example"})
    (refused,) = event_log.of("refused")
    assert (refused["cause"], refused["client_id"]) == ("csrf", given.application.client_id)
    assert refused["reference"] == answer["X-Reference"]
    assert caplog.records[-1].route == "/oauth/authorize"  # type: ignore[attr-defined]
    assert not ActivityRecord.objects.exists()
