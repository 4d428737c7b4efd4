"""The page that asks whether an application may sign a person out. RP-Initiated Logout 1.0 §3; I9."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import signing
from django.test import Client

from oauth_bridge.logout_views import PAGE_LIFETIME
from tests.factories import ApplicationFactory, PersonFactory

pytestmark = pytest.mark.django_db

AFTER = "https://app.example/after"


def test_a_page_that_is_too_old_asks_again_for_the_same_application(monkeypatch: pytest.MonkeyPatch) -> None:
    browser, application = Client(), ApplicationFactory(post_logout_redirect_uris=AFTER)
    browser.force_login(PersonFactory())
    asked = {"client_id": application.client_id, "post_logout_redirect_uri": AFTER, "state": "a b"}
    page = browser.get("/oauth/logout", asked)
    now = signing.time.time()
    monkeypatch.setattr(signing.time, "time", lambda: now + (PAGE_LIFETIME + timedelta(minutes=1)).total_seconds())
    form = f"leaving={page.context['leaving']}"
    answer = browser.post("/oauth/logout", form, "application/x-www-form-urlencoded")
    assert answer.status_code in (302, 303)
    again = browser.get(answer["Location"])
    assert application.row.name in again.content.decode()
    assert "_auth_user_id" in browser.session
    browser.post("/oauth/logout", f"leaving={again.context['leaving']}", "application/x-www-form-urlencoded")
    assert "_auth_user_id" not in browser.session
