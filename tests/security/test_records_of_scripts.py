"""What a browser stops is recorded where it is known whose it is: CORS, frames. D8, D22, D24."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from oauth_bridge.models.activity import ActivityRecord
from tests.grants import Attempt

pytestmark = pytest.mark.django_db

FETCH = {"HTTP_SEC_FETCH_DEST": "empty", "HTTP_SEC_FETCH_MODE": "cors", "HTTP_ORIGIN": "https://client.example"}
FRAME = {"HTTP_SEC_FETCH_DEST": "iframe", "HTTP_SEC_FETCH_MODE": "navigate"}
PREFLIGHT = {"HTTP_ORIGIN": "https://client.example", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "GET"}


def the_record(tried: Attempt, cause: str, answer: Any) -> None:
    record = ActivityRecord.objects.get()
    assert (record.step, record.cause, record.client_id) == ("authorize", cause, tried.application.client_id)
    assert record.reference == answer["X-Reference"]
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_script_that_calls_authorize_is_recorded_each_time() -> None:
    tried = Attempt()
    answers = [tried.browser.get(tried.link(), **FETCH) for _ in range(5)]
    references = set(ActivityRecord.objects.values_list("reference", flat=True))
    assert references == {answer["X-Reference"] for answer in answers}
    for headers, cause, method, status in (
        (FETCH, "called_by_script", "GET", 503),
        (PREFLIGHT, "called_by_script", "OPTIONS", 405),
        (FRAME, "framed", "GET", 503),
    ):
        ActivityRecord.objects.all().delete()
        answer = tried.browser.generic(method, tried.link(), **headers)
        assert answer.status_code == status
        the_record(tried, cause, answer)


@pytest.mark.parametrize("method", ["get", "options"])
def test_a_script_is_recorded_at_the_address_of_the_api_too(settings: Any, method: str) -> None:
    settings.BASE_URL, settings.AUTH_URL = "https://api.example.com", "https://auth.example.com"
    settings.ORIGINS_ARE_SET, settings.ALLOWED_HOSTS = True, ["api.example.com", "auth.example.com"]
    tried, at_api = Attempt(), {"HTTP_HOST": "api.example.com"}
    answer = getattr(Client(), method)(tried.link(), **at_api, **(FETCH if method == "get" else PREFLIGHT))
    assert answer.status_code in (405, 503)
    the_record(tried, "called_by_script", answer)
    assert Client().get(tried.link(), **at_api).status_code == 302
    assert Client().get("/accounts/sign-in", **at_api, **FETCH).status_code == 302


def test_nothing_else_is_recorded() -> None:
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
