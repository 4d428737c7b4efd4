"""While it is quiet, each failure of a developer is found by its reference. D24."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from oauth_bridge.activity_models import ActivityBudget, ActivityRecord
from oauth_bridge.storage import activity
from tests.events import HTML, Attempt
from tests.pages import admin_browser

pytestmark = pytest.mark.django_db


def test_each_of_forty_refusals_by_a_limit_is_found_by_its_reference_and_of_a_flood_few_are_kept(settings: Any) -> None:
    settings.RATES = {"token_failures": "1/h"}
    tried = Attempt()
    form = {"grant_type": "authorization_code", "client_id": tried.application.client_id, "client_secret": "wrong"}
    answers: list[Any] = [tried.post("/oauth/token", {**form, "code": "x" * 43}, Client()) for _ in range(41)][1:]
    assert {answer.status_code for answer in answers} == {429}
    records = ActivityRecord.objects.filter(cause="throttled_token_failures")
    assert set(records.values_list("reference", flat=True)) == {answer["X-Reference"] for answer in answers}
    row = ActivityBudget.objects.get(slot__gte=activity.LIMITED.first)
    other = activity.LIMITED.first + (row.slot + 1 - activity.LIMITED.first) % activity.SLOTS
    ActivityBudget.objects.create(client_id=row.client_id, hour=row.hour, slot=other, number=activity.FLOOD + 1)
    for _ in range(5):
        tried.post("/oauth/token", {**form, "code": "x" * 43}, Client())
    assert records.count() == 40


def test_a_reference_without_a_record_is_answered_with_where_it_is() -> None:
    output = StringIO()
    call_command("application", "activity", "--reference", "7K3M9QXT", stdout=output)
    for text in (output.getvalue(), admin_browser().get("/admin/find/", {"q": "7K3M9QXT"}).content.decode()):
        assert "log of the service has every reference" in text


def test_each_of_forty_failures_from_one_address_is_found_by_its_reference() -> None:
    tried, grace = Attempt(), admin_browser()
    form = {"grant_type": "authorization_code", "client_id": tried.application.client_id, "client_secret": "wrong"}
    answers: list[Any] = [tried.post("/oauth/token", {**form, "code": "x" * 43}, Client()) for _ in range(20)]
    answers += [tried.browser.get(tried.link(redirect_uri="https://client.example/x"), **HTML) for _ in range(20)]
    references = {answer["X-Reference"] for answer in answers}
    assert len(references) == 40
    for reference in references:
        output = StringIO()
        call_command("application", "activity", "--reference", reference, "--json", stdout=output)
        (found,) = json.loads(output.getvalue())
        assert found["reference"] == reference
        page = grace.get("/admin/find/", {"q": reference.lower()}, follow=True)
        assert page.status_code == 200
        assert page.redirect_chain[-1][0].startswith("/admin/activity/")
        assert reference[:4] in page.content.decode()
