"""While it is quiet, each failure of a developer is found by its reference. D24."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.events import HTML, Attempt
from tests.pages import admin_browser

pytestmark = pytest.mark.django_db


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
