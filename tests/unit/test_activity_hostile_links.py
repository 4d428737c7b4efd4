"""No link can keep a refusal out of the activity log. D24."""

from __future__ import annotations

import pytest
from django.conf import settings

from oauth_bridge.activity_models import ActivityRecord
from tests.events import HTML, Attempt

pytestmark = pytest.mark.django_db

MORE_THAN_DJANGO_READS = "&".join(f"a{number}=1" for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1))


def test_a_link_with_many_parameters_is_recorded() -> None:
    given = Attempt()
    given.browser.get(f"{given.link(redirect_uri='https://mallory.example/')}&{MORE_THAN_DJANGO_READS}", **HTML)
    record = ActivityRecord.objects.get()
    assert (record.cause, record.detail["parameters"]["a0"]) == ("redirect_uri_mismatch", "1")


def test_a_return_path_with_many_parameters_does_not_hide_a_wrong_password() -> None:
    given = Attempt()
    page = f"/accounts/sign-in?next=/oauth/authorize%3F{MORE_THAN_DJANGO_READS.replace('&', '%26')}"
    assert given.browser.get(page).status_code == 200
    given.post(page, {"login": given.person.email, "password": "wrong"})
    assert ActivityRecord.objects.get().cause == "password_wrong"
