"""A post whose session ends meanwhile says whether it was carried out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib import messages
from django.db import OperationalError
from django.http import HttpRequest
from django.test import Client

from accounts.models import Session, User
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import ApplicationFactory, PersonFactory
from tests.grants import PAGE, link_of
from tests.pages import proven, with_session

pytestmark = pytest.mark.django_db

DONE, NOT_DONE = "What you sent was carried out.", "What you sent was not carried out"


@pytest.fixture
def sign_out_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says something on the next page is signed out in another browser at that moment."""
    add = messages.api.add_message

    def say(request: HttpRequest, *arguments: Any, **options: Any) -> None:
        assert request.user.is_authenticated
        Session.objects.all().delete()
        add(request, *arguments, **options)

    monkeypatch.setattr(messages.api, "add_message", say)


def test_an_administrator_who_deletes_the_own_account_is_told_that_it_is_deleted(admin_user: User) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    form = {"post": "yes", "typed": root.email}
    answer = proven(with_session(root)).post(f"/admin/accounts/user/{root.pk}/delete/", form)
    assert (answer.status_code, DONE in answer.content.decode()) == (200, True)
    assert not User.objects.filter(pk=root.pk).exists()


@pytest.mark.usefixtures("sign_out_meanwhile")
def test_a_form_that_was_saved_says_so_and_leads_to_the_next_page(alice: User) -> None:
    answer = with_session(alice).post("/accounts/profile", {"nickname": "Ali"})
    assert (answer.status_code, User.objects.get(pk=alice.pk).nickname) == (200, "Ali")
    assert DONE in answer.content.decode()
    assert 'href="/accounts/sign-in?next=%2Faccounts%2Fprofile"' in answer.content.decode()


COOKIE = settings.CSRF_COOKIE_NAME
NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE = "sent no cookie of this site", "came from another site", "open for too long"


@pytest.mark.parametrize("path", ["/accounts/sign-in", "/accounts/sign-up", "/accounts/password/reset"])
@pytest.mark.parametrize(
    ("cookie", "headers", "said", "cause"),
    [
        ("another", {}, NO_COOKIE, "csrf_no_cookie"),
        ("", {}, NO_COOKIE, "csrf_no_cookie"),
        ("a" * 32, {}, OUT_OF_DATE, "csrf"),
        ("", {"Origin": "https://evil.example"}, ANOTHER_SITE, "csrf_origin"),
        ("a" * 32, {"Origin": "null"}, ANOTHER_SITE, "csrf_origin"),
    ],
)
def test_a_form_that_is_refused_says_why_and_is_recorded(
    path: str, cookie: str, headers: dict[str, str], said: str, cause: str, settings: Any
) -> None:
    settings.SIGN_UP = "open"
    browser = Client(enforce_csrf_checks=True)
    if cookie:
        browser.cookies["theme" if cookie == "another" else COOKIE] = cookie
    answer = browser.post(path, {"login": "a@example.com", "csrfmiddlewaretoken": "b" * 32}, headers=headers)
    assert answer.status_code == (403 if said == NO_COOKIE else 303)
    page = (answer if said == NO_COOKIE else browser.get(answer["Location"])).content.decode()
    assert [text for text in (NO_COOKIE, ANOTHER_SITE, OUT_OF_DATE) if text in page] == [said]
    recorded = ActivityRecord.objects.values_list("step", "cause", "reference")
    assert list(recorded) == [("sign_in", cause, answer["X-Reference"])]


@pytest.mark.parametrize(
    ("headers", "cookies", "said", "cause"),
    [
        ({}, True, "This page was out of date", "csrf"),
        ({}, False, "Your browser sent no cookie of this site", "csrf_no_cookie"),
        ({"Origin": "https://evil.example"}, True, "came from another site", "csrf_origin"),
    ],
)
def test_a_consent_that_is_refused_says_why_and_is_recorded(
    alice: User, headers: dict[str, str], cookies: bool, said: str, cause: str
) -> None:
    application = ApplicationFactory()
    browser = with_session(alice, enforce_csrf_checks=True)
    page = browser.get(link_of(application), headers=PAGE, follow=True).content.decode()
    pending = re.search(r'name="pending" value="([^"]+)"', page)
    assert pending
    form = {"decision": "allow", "pending": pending[1], "csrfmiddlewaretoken": "b" * 32}
    sender = browser if cookies else Client(enforce_csrf_checks=True)
    again = sender.post("/oauth/authorize", form, headers=headers)
    assert said in browser.get(again["Location"], headers=PAGE).content.decode()
    record = ActivityRecord.objects.get()
    assert (record.step, record.cause, record.client_id) == ("consent", cause, application.client_id)
    assert record.attempt


def test_a_database_that_is_away_ends_no_session(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django tells of it, when a session is stored, as of a session that has ended."""
    browser = with_session(alice, raise_request_exception=False)
    assert browser.post("/accounts/profile", {"nickname": "Ali"}).status_code == 302
    browser.get("/accounts/profile")  # the message is read, so the next one is stored

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Session, "save", fail)
    answer = browser.post("/accounts/profile", {"nickname": "Alice"})
    assert (answer.status_code, DONE in answer.content.decode()) == (503, False)
