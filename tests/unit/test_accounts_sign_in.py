"""Signing in and out, and where each leads."""

from __future__ import annotations

import base64
import re
import time
from html import unescape
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.test import Client

from accounts import return_path
from accounts.models import Session, User
from accounts.sessions import known_browsers
from accounts.sessions.credential_changes import end_credentials, set_active
from tests.factories import PersonFactory
from tests.grants import pending_path
from tests.pages import AUTHORIZE, html_of, is_signed_in, known_browser, sign_in, text_of, with_session

pytestmark = pytest.mark.django_db


def test_a_wrong_name_and_a_wrong_password_get_the_same_page_whatever_the_request_accepts(alice: User) -> None:
    browser = Client(headers={"accept": "application/json", "x-requested-with": "XMLHttpRequest"})
    pages = [sign_in(browser, email, "wrong password") for email in (alice.email, "nobody@example.com")]
    assert {(page.status_code, page["Content-Type"]) for page in pages} == {(200, "text/html; charset=utf-8")}
    [text] = {str(page.context["form"].errors) for page in pages}
    assert "is not right" in text


def test_accounts_leads_to_the_profile(client: Client) -> None:
    assert client.get("/accounts")["Location"] == "/accounts/profile"
    assert client.post("/accounts").status_code == 405
    assert client.get("/accounts/signup").status_code == 404


@pytest.mark.parametrize("field", ["login", "password", "next"])
def test_no_field_can_break_the_sign_in(client: Client, alice: User, field: str) -> None:
    for value in ("\x00", "a\x1b@example.com", "x" * 20000, b"\xed\xa0\x80".decode("latin-1")):
        form = {"login": alice.email, "password": "wrong password", field: value}
        assert client.post("/accounts/sign-in", form).status_code == 200
        assert client.get("/accounts/sign-in", form).status_code == 200


def test_a_password_of_100_kb_is_refused_unhashed_and_a_form_of_2_mb_is_not_read(
    client: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(User, "check_password", lambda *_: pytest.fail("hashed"))
    assert "at most 1024 characters" in text_of(sign_in(client, alice.email, "x" * 100_000))
    response = sign_in(Client(headers={"accept": "text/html"}), alice.email, "x" * 2_000_000)
    assert response.status_code == 413
    assert "At most 131072 bytes are read" in text_of(response)


def test_signing_in_leads_back(client: Client, alice: User) -> None:
    page = html_of(client.get(return_path.sign_in_url(AUTHORIZE)))
    for field in ("username", "current-password"):  # which password managers and browsers with passkeys look for
        assert f'autocomplete="{field} webauthn"' in page
    assert sign_in(client, alice.email, "wrong", next=AUTHORIZE).context["return_to"] == AUTHORIZE
    for way in (AUTHORIZE, "/oauth/authorize?state=" + "%E2%82%AC" * 1300):
        assert sign_in(Client(), alice.email, next=way)["Location"] == way


def test_the_way_to_a_new_password_and_back_names_the_application(client: Client) -> None:
    page = html_of(client.get(return_path.sign_in_url(pending_path("Photo <Printer>"))))
    assert "Sign in to continue to Photo <Printer> client.example" in text_of(page)
    (link,) = re.findall(r'<a href="([^"]+)">Forgot it\?</a>', page)
    reset = html_of(client.get(unescape(link)))
    (back,) = re.findall(r'<a href="([^"]+)">Back to sign-in</a>', reset)
    action = re.findall(r'<form method="post" action="([^"]+)"', reset)[0]
    for answer in (client.get(unescape(back)), client.post(unescape(action), {"email": "nobody"})):
        assert "Photo &lt;Printer&gt;" in html_of(answer), "with an error too"


def test_signing_out_asks_first_and_ends_the_session(client: Client, alice: User) -> None:
    client.force_login(alice)
    page = client.get("/accounts/sign-out")
    assert (page.status_code, page.context["person"]["email"]) == (200, alice.email)
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert client.post("/accounts/sign-out")["Location"] == "/accounts/sign-in"
    assert not Session.objects.filter(user=alice).exists()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert not is_signed_in(client)
    for answer in (client.get("/accounts/sign-out"), client.post("/accounts/sign-out")):
        assert answer["Location"] == "/accounts/sign-in"


def test_an_old_sign_in_form_comes_back(alice: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.get("/accounts/sign-in")
    page = strict.get(sign_in(strict, alice.email, next=AUTHORIZE)["Location"])
    assert "Please try again" in text_of(page)
    assert page.context["return_to"] == AUTHORIZE
    again = {"csrfmiddlewaretoken": str(page.context["csrf_token"])}
    assert sign_in(strict, alice.email, next=AUTHORIZE, **again)["Location"] == AUTHORIZE
    old = sign_in(strict, alice.email, next=AUTHORIZE)["Location"]
    assert strict.get(old)["Location"] == AUTHORIZE, "as in another tab, of somebody who is signed in"


@pytest.mark.parametrize("path", ["/accounts/sign-out", "/accounts/profile", "/admin/accounts/user/", "/admin/logout/"])
def test_other_old_forms_come_back_too(path: str) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    strict = with_session(root, enforce_csrf_checks=True)
    response = strict.post(path, {"nickname": "Typed", "email": "typed@example.com"}, follow=True)
    assert response.redirect_chain == [("/admin/" if path == "/admin/logout/" else path, 303)]
    assert "Please try again" in text_of(response)
    assert User.objects.get(pk=root.pk).nickname == root.nickname


@pytest.mark.parametrize("exists", [True, False])
def test_failures_count_for_all_spellings_of_an_address_whether_it_exists_or_not(settings: Any, exists: bool) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    email, words = PersonFactory().email if exists else "nobody@example.com", "wrong password"
    answers = [sign_in(Client(), each, words) for each in (email, email.upper(), f" {email} ", email)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1]["Retry-After"]) <= 900
    assert re.search(r"Too many sign-ins have failed, .* Try again in \d+ (minute|second)s?,", text_of(answers[-1]))


def test_successes_count_nothing_and_known_browsers_are_limited_as_well(alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    browsers = [known_browser(person) for person in (alice, alice, alice, PersonFactory(nickname="Mallory"))]
    for browser in browsers[2:]:
        assert [sign_in(browser, alice.email, "wrong").status_code for _ in range(3)] == [200] * 2 + [429]


def offered(browser: Client, query: str = "") -> str:
    context = browser.get("/accounts/sign-in" + query).context
    return str(context["offered"]["email"]) if "offered" in context else ""


def test_the_last_account_is_offered_and_only_the_password_is_asked_for(client: Client, alice: User) -> None:
    for person in (PersonFactory(), alice):
        sign_in(client, person.email)
        client.post("/accounts/sign-out")
        assert offered(client) == person.email
    page = sign_in(client, alice.email, "wrong password")
    assert page.context["offered"]["display_name"] == alice.display_name
    assert [field.name for field in page.context["form"].visible_fields()] == ["password"]
    page = sign_in(client, "bob@example.com", "wrong password")
    assert "offered" not in page.context, "another was typed"
    assert 'value="bob@example.com"' in page.content.decode()
    assert sign_in(client, alice.email).status_code == 302
    client.post("/accounts/sign-out", {"next": AUTHORIZE})
    assert offered(client) == "", "to use another account"


def test_it_can_be_removed_and_the_way_back_is_kept(alice: User, settings: Any) -> None:
    known, strict = known_browser(alice), Client(enforce_csrf_checks=True)
    strict.cookies = known.cookies
    strict.post("/accounts/sign-in/forget")
    assert known.get("/accounts/sign-in/forget").status_code == 405
    assert offered(known) == alice.email, "neither a forged form nor a link removes it"
    answer = known.post("/accounts/sign-in/forget", {"next": AUTHORIZE})
    assert known.get(answer["Location"]).context["return_to"] == AUTHORIZE
    assert offered(known) == ""
    settings.RATES = {"sign_in_account": "2/15m"}
    for _ in range(3):
        sign_in(Client(), alice.email, "wrong password")
    assert sign_in(known, alice.email).status_code == 302, "the browser is still known"


@pytest.mark.parametrize("end", [end_credentials, lambda person: set_active(person, False), User.delete])
def test_it_is_not_offered_after_the_credentials_ended(alice: User, end: Any) -> None:
    known = known_browser(alice)
    end(alice)
    assert offered(known) == ""


def test_the_cookie_names_five_people_unreadably_for_180_days_with_a_known_key(alice: User, settings: Any) -> None:
    known = known_browser(alice)
    for person in (*PersonFactory.create_batch(6), alice):
        sign_in(known, person.email)
        known.post("/accounts/sign-out")
    request = known.get("/accounts/sign-in").wsgi_request
    request.COOKIES = {name: morsel.value for name, morsel in known.cookies.items()}
    assert len(known_browsers.read(request)[0]) == 5
    cookie = known.cookies[settings.KNOWN_BROWSER_COOKIE_NAME]
    content = cookie.value.encode() + base64.urlsafe_b64decode(cookie.value + "==")
    for told in (alice.email, str(alice.pk), alice.pk.hex, alice.nickname):
        assert told.encode() not in content
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "x" * 60, [settings.SECRET_KEY]
    for days, person in ((179, alice.email), (181, "")):
        with time_machine.travel(time.time() + days * 86_400):
            assert offered(known) == person
    settings.SECRET_KEY_FALLBACKS = []
    for value in (cookie.value, "", "rubbish", "WyJhIl0:1abc:def", "gAAAAAB" + "x" * 100, "é"):
        known.cookies[settings.KNOWN_BROWSER_COOKIE_NAME] = value
        assert offered(known) == ""
