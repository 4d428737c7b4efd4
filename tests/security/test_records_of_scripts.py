"""What a browser stops is recorded where it is known whose it is: CORS, frames. D8, D22, D24."""

from __future__ import annotations

import pytest
from django.test import Client

from oauth_bridge.models.activity import ActivityRecord
from tests.grants import Attempt

pytestmark = pytest.mark.django_db

FETCH = {"HTTP_SEC_FETCH_DEST": "empty", "HTTP_SEC_FETCH_MODE": "cors", "HTTP_ORIGIN": "https://client.example"}
FRAME = {"HTTP_SEC_FETCH_DEST": "iframe", "HTTP_SEC_FETCH_MODE": "navigate"}


def test_a_script_that_calls_authorize_is_recorded_each_time() -> None:
    """While little is refused. So is a link in a frame."""
    tried = Attempt()
    answers = [tried.browser.get(tried.link(), **FETCH) for _ in range(5)]
    assert {answer.status_code for answer in answers} == {503}
    references = set(ActivityRecord.objects.values_list("reference", flat=True))
    assert references == {answer["X-Reference"] for answer in answers}
    for headers, cause in ((FETCH, "called_by_script"), (FRAME, "framed")):
        ActivityRecord.objects.all().delete()
        answer = tried.browser.get(tried.link(), **headers)
        record = ActivityRecord.objects.get()
        assert (record.step, record.cause, record.client_id) == ("authorize", cause, tried.application.client_id)
        assert record.reference == answer["X-Reference"]


def test_nothing_else_is_recorded() -> None:
    """What a browser loads by itself, an unknown application, the sign-out."""
    tried = Attempt()
    for headers, path in (
        ({"HTTP_SEC_PURPOSE": "prefetch", **FETCH}, tried.link()),
        ({"HTTP_SEC_FETCH_DEST": "image"}, tried.link()),
        ({"HTTP_PURPOSE": "prefetch", **FRAME}, tried.link()),
        (FETCH, tried.link(client_id="unheard-of")),
        (FRAME, f"/oauth/logout?client_id={tried.application.client_id}"),
    ):
        assert tried.browser.get(path, **headers).status_code == 503, headers
    assert Client().options(tried.link()).status_code == 405
    assert not ActivityRecord.objects.exists()


def test_a_silent_request_in_a_frame_is_answered_without_a_page() -> None:
    tried = Attempt()
    signed_out = Client().get(tried.link(scope="openid", prompt="none"), **FRAME)
    assert signed_out.status_code == 302
    assert "error=login_required" in signed_out["Location"]
    tried.browser.force_login(tried.person)
    assert "error=consent_required" in tried.browser.get(tried.link(scope="openid", prompt="none"), **FRAME)["Location"]
    for changes in ({"prompt": "none"}, {"scope": "openid"}, {"scope": "openid", "prompt": "none login"}):
        assert tried.browser.get(tried.link(**changes), **FRAME).status_code == 503
    prefetched = {**FRAME, "HTTP_SEC_PURPOSE": "prefetch"}
    assert tried.browser.get(tried.link(scope="openid", prompt="none"), **prefetched).status_code == 503
    assert Client().get("/oauth/logout?scope=openid&prompt=none", **FRAME).status_code == 503
