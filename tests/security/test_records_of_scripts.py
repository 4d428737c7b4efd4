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


@pytest.mark.parametrize(
    ("headers", "cause", "method", "status", "host"),
    [
        (FETCH, "called_by_script", "GET", 503, "testserver"),
        (PREFLIGHT, "called_by_script", "OPTIONS", 405, "testserver"),
        (FRAME, "framed", "GET", 503, "testserver"),
        (FETCH, "called_by_script", "GET", 503, "api.example.com"),
        (PREFLIGHT, "called_by_script", "OPTIONS", 405, "api.example.com"),
    ],
)
def test_what_the_browser_stops_is_recorded_each_time(
    settings: Any, headers: dict[str, str], cause: str, method: str, status: int, host: str
) -> None:
    if host != "testserver":
        settings.BASE_URL, settings.AUTH_URL = "https://api.example.com", "https://auth.example.com"
        settings.ORIGINS_ARE_SET, settings.ALLOWED_HOSTS = True, ["api.example.com", "auth.example.com"]
    tried = Attempt()
    answers = [Client().generic(method, tried.link(), HTTP_HOST=host, **headers) for _ in range(5)]
    assert {(answer.status_code, "Access-Control-Allow-Origin" in answer.headers) for answer in answers} == {
        (status, False)
    }
    found = ActivityRecord.objects.filter(step="authorize", cause=cause, client_id=tried.application.client_id)
    assert {record.reference for record in found} == {answer["X-Reference"] for answer in answers}
    if host != "testserver":
        assert Client().get(tried.link(), HTTP_HOST=host).status_code == 302
        assert Client().get("/accounts/sign-in", HTTP_HOST=host, **FETCH).status_code == 302


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
