"""The reference stands on each page that shows an error, and is that of the answer. D24."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from oauth_bridge.activity_models import ActivityRecord
from tests.events import HTML, Attempt
from tests.factories import PersonFactory
from tests.pages import admin_browser, html_of, sign_in, with_session

pytestmark = pytest.mark.django_db


def wrong_password() -> Any:
    return sign_in(Client(), PersonFactory().email, "not the password")


def not_confirmed() -> Any:
    attempt = Attempt()
    User.objects.filter(pk=attempt.person.pk).update(email_verified_at=None)
    attempt.browser.force_login(attempt.person)
    return attempt.browser.get(attempt.link(), **HTML)


def not_an_administrator() -> Any:
    return with_session(PersonFactory()).get("/admin/", **HTML, follow=True)


def without_the_permission() -> Any:
    return with_session(PersonFactory(is_staff=True)).get("/admin/activity/", **HTML)


def wrong_answer_of_an_account_page() -> Any:
    return with_session(PersonFactory()).post("/accounts/profile", {"nickname": "\x07"})


def wrong_answer_of_the_administration() -> Any:
    return admin_browser().post("/admin/oauth_bridge/application/add/", {"name": "A", "redirect_uris": "nowhere"})


def unknown_callback_address() -> Any:
    attempt = Attempt()
    return attempt.browser.get(attempt.link(redirect_uri="https://www.client.example/callback"), **HTML)


@pytest.mark.parametrize(
    "refused",
    [
        wrong_password,
        not_confirmed,
        not_an_administrator,
        without_the_permission,
        wrong_answer_of_an_account_page,
        wrong_answer_of_the_administration,
        unknown_callback_address,
    ],
)
def test_the_page_of_an_error_has_the_reference_of_its_answer(refused: Callable[[], Any]) -> None:
    answer = refused()
    shown = re.findall(r"<span>Reference</span> <code>([0-9A-Z]{8})</code>", html_of(answer))
    assert shown == [answer["X-Reference"]]


def test_the_reference_of_a_wrong_password_opens_its_record() -> None:
    answer = wrong_password()
    record = ActivityRecord.objects.get()
    found = admin_browser().get("/admin/find/", {"q": answer["X-Reference"].lower()})
    assert found["Location"] == f"/admin/activity/{record.pk}/"


@pytest.mark.parametrize("path", ["/accounts/sign-in", "/accounts/sign-up"])
def test_a_page_without_an_error_shows_no_reference(path: str) -> None:
    assert "<span>Reference</span>" not in html_of(Client().get(path))
