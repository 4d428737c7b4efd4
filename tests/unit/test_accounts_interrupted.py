"""A post whose session ends meanwhile says whether it was carried out."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import messages
from django.db import OperationalError
from django.http import HttpRequest, HttpResponseRedirect

from accounts.models import Session, User
from accounts.sessions.middleware import SessionMiddleware
from tests.factories import PersonFactory
from tests.pages import proven, with_session

pytestmark = pytest.mark.django_db

DONE, NOT_DONE = "What you sent was carried out.", "What you sent was not carried out"


@pytest.fixture
def sign_out_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says something on the next page is signed out in another browser at that moment."""
    for level in ("success", "error", "warning"):
        monkeypatch.setattr(messages, level, _after_the_end_of_sessions(getattr(messages, level)))


def _after_the_end_of_sessions(add: Any) -> Any:
    def say(request: HttpRequest, *arguments: Any) -> None:
        assert request.user.is_authenticated
        Session.objects.all().delete()
        add(request, *arguments)

    return say


def test_an_administrator_who_deletes_the_own_account_is_told_that_it_is_deleted() -> None:
    PersonFactory(is_staff=True, is_superuser=True)
    root = PersonFactory(is_staff=True, is_superuser=True)
    answer = proven(with_session(root)).post(
        f"/admin/accounts/user/{root.pk}/delete/", {"post": "yes", "typed": root.email}
    )
    assert answer.status_code == 200
    assert DONE in answer.content.decode()
    assert not User.objects.filter(pk=root.pk).exists()


@pytest.mark.usefixtures("sign_out_meanwhile")
def test_a_form_that_was_saved_says_so_and_leads_to_the_next_page(alice: User) -> None:
    answer = with_session(alice).post("/accounts/profile", {"nickname": "Ali"})
    assert (answer.status_code, User.objects.get(pk=alice.pk).nickname) == (200, "Ali")
    assert DONE in answer.content.decode()
    assert 'href="/accounts/sign-in?next=%2Faccounts%2Fprofile"' in answer.content.decode()


@pytest.mark.usefixtures("sign_out_meanwhile")
def test_a_form_that_was_out_of_date_as_well_says_that_nothing_was_saved(alice: User) -> None:
    browser = with_session(alice, enforce_csrf_checks=True)
    answer = browser.post("/accounts/sign-in?next=/accounts/security", {"login": alice.email})
    assert answer.status_code == 403
    assert NOT_DONE in answer.content.decode()
    assert "What you sent was carried out" not in answer.content.decode()


def test_an_answer_to_an_application_goes_on_to_it(alice: User, rf: Any) -> None:
    request = rf.post("/oauth/authorize")
    request.session = with_session(alice).session
    request.user = alice
    request.session["anything"] = 1
    Session.objects.all().delete()
    answer = HttpResponseRedirect("https://client.example/callback?code=x")
    assert SessionMiddleware(lambda _: answer)(request) is answer


def test_an_outdated_form_of_a_page_of_people_is_shown_again(settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = False
    administrator = PersonFactory(is_staff=True, is_superuser=True)
    for path, status, is_error in (
        ("/accounts/profile", 403, False),
        ("/admin/accounts/user/", 403, False),
        ("/admin/logout/", 302, False),
        ("/accounts/sign-in/forget", 302, False),
        ("/", 403, True),
        ("/accounts/applications", 403, True),
        ("/admin/accounts/user/add/", 403, True),
    ):
        answer = with_session(administrator, enforce_csrf_checks=True).post(path, HTTP_ACCEPT="text/html")
        assert answer.status_code == status, path
        assert ('class="developer"' in answer.content.decode()) is is_error, path
        assert answer.wsgi_request.method == "POST"


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_database_that_is_away_ends_no_session(method: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django tells of it, when a session is stored, as of a session that has ended."""
    browser = with_session(alice, raise_request_exception=False)
    assert browser.post("/accounts/profile", {"nickname": "Ali"}).status_code == 302

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Session, "save", fail)
    answer = getattr(browser, method)("/accounts/profile", {"nickname": "Alice"})
    assert answer.status_code == 503
    assert DONE not in answer.content.decode()
