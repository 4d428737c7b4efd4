"""A refusal at a page of `accounts` names the application whose request waits for the sign-in. D24."""

from __future__ import annotations

import pytest
from django.db import connection
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
