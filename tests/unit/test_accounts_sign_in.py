"""Signing in and out, and where each leads."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import time_machine
from django.conf import settings
from django.test import Client

from accounts import return_path
from accounts.errors import AccountFault
from accounts.models import Session, User
from accounts.sessions import known_browsers
from tests.factories import PASSWORD, PersonFactory
from tests.pages import sign_in, text_of

pytestmark = pytest.mark.django_db

AUTHORIZE = "/oauth/authorize?client_id=photo&state=a%20b%2Fc"


# In -------------------------------------------------------------------------------------------------------------------


def test_the_right_password_signs_in(client: Client, alice: User) -> None:
    response = sign_in(client, alice.email)
    assert (response.status_code, response["Location"]) == (302, "/accounts/profile")
    assert Session.objects.get().user == alice


@pytest.mark.parametrize("typed", ["  {}  ", "{}"])
def test_the_address_is_found_however_it_is_typed(client: Client, alice: User, typed: str) -> None:
    assert sign_in(client, typed.format(alice.email.upper())).status_code == 302


def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(client: Client, alice: User) -> None:
    wrong_password = sign_in(client, alice.email, "wrong password")
    wrong_name = sign_in(client, "nobody@example.com", "wrong password")
    assert wrong_password.status_code == wrong_name.status_code == 200
    assert wrong_password.context["form"].non_field_errors() == wrong_name.context["form"].non_field_errors()
    assert "is not right" in text_of(wrong_name)


def test_the_session_key_changes_at_sign_in(client: Client, alice: User) -> None:
    client.get("/accounts/password/reset")
    sign_in(client, alice.email, "wrong password")
    before = client.cookies.get(settings.SESSION_COOKIE_NAME)
    sign_in(client, alice.email)
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != (before and before.value)


def test_a_deactivated_person_learns_so_after_the_right_password_only(client: Client) -> None:
    bob = PersonFactory(is_active=False)
    assert "is not right" in text_of(sign_in(client, bob.email, "wrong password"))
    response = sign_in(client, bob.email)
    assert response.status_code == 403
    assert "This account is switched off" in text_of(response)
    assert client.get("/accounts/profile").status_code == 302


def test_the_answer_is_a_page_whatever_the_request_accepts(client: Client, alice: User) -> None:
    for headers in ({"accept": "application/json"}, {"x-requested-with": "XMLHttpRequest"}):
        response = client.post("/accounts/sign-in", {"login": "", "password": ""}, headers=headers)
        assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/accounts/", "/accounts/sign-in/", "/accounts/sign-up/", "/accounts/signup"])
def test_other_paths_do_not_exist(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_accounts_leads_to_the_profile(client: Client) -> None:
    assert client.get("/accounts")["Location"] == "/accounts/profile"
    assert client.post("/accounts").status_code == 405


@pytest.mark.parametrize("field", ["login", "password", "next", "for"])
@pytest.mark.parametrize(
    "value",
    ["\x00", "a\x00b@example.com", "a\x1bb", "x" * 20000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")],
)
def test_no_field_can_break_the_sign_in(client: Client, alice: User, field: str, value: str) -> None:
    form = {"login": alice.email, "password": "wrong password", field: value}
    assert client.post("/accounts/sign-in", form).status_code == 200
    assert client.get("/accounts/sign-in", form).status_code == 200


def test_a_password_of_100_kb_is_refused_unhashed(client: Client, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(User, "check_password", lambda *_: pytest.fail("hashed"))
    response = sign_in(client, alice.email, "x" * 100_000)
    assert "at most 1024 characters" in text_of(response)


def test_a_form_of_2_mb_is_not_read(client: Client, alice: User) -> None:
    form = {"login": alice.email, "password": "x" * 2_000_000}
    response = client.post("/accounts/sign-in", form, HTTP_ACCEPT="text/html")
    assert response.status_code == 413
    assert "At most 131072 bytes are read" in text_of(response)


# Where it leads -------------------------------------------------------------------------------------------------------


def test_signing_in_leads_back(client: Client, alice: User) -> None:
    page = client.get(return_path.sign_in_url(AUTHORIZE))
    assert page.context["redirect_field_value"] == AUTHORIZE
    assert sign_in(client, alice.email, next=AUTHORIZE)["Location"] == AUTHORIZE


def test_a_long_way_back_survives(client: Client, alice: User) -> None:
    long_way = "/oauth/authorize?state=" + "%E2%82%AC" * 1300
    assert sign_in(client, alice.email, next=long_way)["Location"] == long_way


def test_a_wrong_password_keeps_the_way_back(client: Client, alice: User) -> None:
    assert sign_in(client, alice.email, "wrong", next=AUTHORIZE).context["redirect_field_value"] == AUTHORIZE


def test_somebody_signed_in_already_goes_straight_on(client: Client, alice: User) -> None:
    client.force_login(alice)
    assert client.get(return_path.sign_in_url(AUTHORIZE))["Location"] == AUTHORIZE
    assert client.get("/accounts/sign-in")["Location"] == "/accounts/profile"


@pytest.mark.parametrize(
    "evil",
    [
        "https://mallory.example/",
        "//mallory.example/",
        "///mallory.example",
        "/\\mallory.example",
        "\\\\mallory.example",
        "javascript:alert(1)",
        "http://testserver/accounts/profile",
        "/accounts\r\nSet-Cookie: a=b",
        "/\t/mallory.example",
        "accounts/profile",
    ],
)
def test_a_return_path_to_another_site_is_ignored(client: Client, alice: User, evil: str) -> None:
    page = client.get("/accounts/sign-in", {"next": evil})
    assert page.context["redirect_field_value"] == ""
    assert sign_in(client, alice.email, next=evil)["Location"] == "/accounts/profile"
    assert client.post("/accounts/sign-out", {"next": evil})["Location"] == "/accounts/sign-in"


def test_browsers_and_password_managers_know_the_fields(client: Client) -> None:
    page = client.get("/accounts/sign-in").content.decode()
    assert 'autocomplete="username webauthn"' in page
    assert 'autocomplete="current-password webauthn"' in page


def test_the_page_says_who_asks(client: Client) -> None:
    page = client.get(return_path.sign_in_url(AUTHORIZE, name="Photo <Printer>", host="photo.example"))
    assert page.context["caption"] == return_path.Caption("Photo <Printer>", "photo.example", "")
    assert "Sign in to continue to Photo <Printer>" in text_of(page)
    assert b"<Printer>" not in page.content


def test_mallory_can_not_write_a_caption(client: Client) -> None:
    page = client.get("/accounts/sign-in", {"next": AUTHORIZE, "for": "Your Bank"})
    assert not page.context["caption"]


def test_mallory_can_not_move_a_caption_to_another_way_back(client: Client) -> None:
    signed = parse_qs(urlsplit(return_path.sign_in_url(AUTHORIZE, name="Photo Printer")).query)["for"][0]
    page = client.get("/accounts/sign-in", {"next": "/oauth/authorize?client_id=evil", "for": signed})
    assert not page.context["caption"]


def test_a_caption_is_good_for_a_day(client: Client) -> None:
    address = return_path.sign_in_url(AUTHORIZE, name="Photo Printer")
    with time_machine.travel(time.time() + return_path.CAPTION_AGE_SECONDS + 5):
        assert not client.get(address).context["caption"]


# Out ------------------------------------------------------------------------------------------------------------------


def test_signing_out_asks_first(client: Client, alice: User) -> None:
    client.force_login(alice)
    page = client.get("/accounts/sign-out")
    assert page.status_code == 200
    assert page.context["person"]["email"] == alice.email
    assert client.get("/accounts/profile").status_code == 200


def test_signing_out_ends_the_session(client: Client, alice: User) -> None:
    client.force_login(alice)
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert client.post("/accounts/sign-out")["Location"] == "/accounts/sign-in"
    assert not Session.objects.filter(user=alice).exists()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert client.get("/accounts/profile").status_code == 302


def test_not_you_keeps_the_way_back_and_the_caption(client: Client, alice: User) -> None:
    client.force_login(alice)
    address = return_path.switch_account_url(AUTHORIZE, name="Photo Printer")
    client.get(address)
    onward = client.post(address)["Location"]
    page = client.get(onward)
    assert onward.startswith("/accounts/sign-in?")
    assert page.context["redirect_field_value"] == AUTHORIZE
    assert page.context["caption"].name == "Photo Printer"


def test_signing_out_with_a_way_back_leads_to_the_sign_in(client: Client, alice: User) -> None:
    client.force_login(alice)
    onward = client.post("/accounts/sign-out", {"next": AUTHORIZE})["Location"]
    assert onward == return_path.sign_in_url(AUTHORIZE)
    bob = PersonFactory()
    assert sign_in(client, bob.email, query=f"?{urlsplit(onward).query}")["Location"] == AUTHORIZE


def test_signing_out_when_nobody_is_signed_in_does_no_harm(client: Client) -> None:
    assert client.get("/accounts/sign-out")["Location"] == "/accounts/sign-in"
    assert client.post("/accounts/sign-out")["Location"] == "/accounts/sign-in"


# Old forms ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict() -> Client:
    """A browser whose CSRF tokens are checked."""
    return Client(enforce_csrf_checks=True)


def test_an_old_sign_in_form_comes_back_with_the_address_kept(strict: Client, alice: User) -> None:
    response = sign_in(strict, alice.email, next=AUTHORIZE)
    assert response.status_code == 403
    assert response.context["form"]["login"].value() == alice.email
    assert response.context["redirect_field_value"] == AUTHORIZE
    assert PASSWORD.encode() not in response.content
    again = {"csrfmiddlewaretoken": str(response.context["csrf_token"])}
    assert sign_in(strict, alice.email, next=AUTHORIZE, **again)["Location"] == AUTHORIZE


def test_an_old_sign_in_form_goes_on_when_another_tab_has_signed_in(strict: Client, alice: User) -> None:
    strict.force_login(alice)
    assert sign_in(strict, alice.email, next=AUTHORIZE)["Location"] == AUTHORIZE


@pytest.mark.parametrize("path", ["/accounts/sign-out", "/accounts/profile", "/accounts/password/reset"])
def test_other_old_forms_come_back_too(strict: Client, alice: User, path: str) -> None:
    strict.force_login(alice)
    response = strict.post(path, {"nickname": "Typed", "email": "typed@example.com"})
    assert response.status_code == 403
    assert "Please try again" in text_of(response)
    assert strict.get("/accounts/profile").status_code == 200


def test_an_old_profile_form_of_somebody_signed_out_leads_to_the_sign_in(strict: Client) -> None:
    assert strict.post("/accounts/profile", {"nickname": "Typed"})["Location"].startswith("/accounts/sign-in?next=")


@pytest.mark.parametrize(
    "page", ["authenticator", "passkeys/add", "passkeys/1", "passkeys/1/remove", "recovery-codes/new"]
)
def test_an_old_form_of_a_page_that_asks_for_a_proof_leads_to_the_proof(strict: Client, alice: User, page: str) -> None:
    strict.force_login(alice)
    path = f"/accounts/security/{page}"
    assert strict.post(path)["Location"] == f"/accounts/confirm?{urlencode({'next': path})}"
    assert "open for too long" in text_of(strict.get("/accounts/confirm"))
    assert Client(enforce_csrf_checks=True).post(path)["Location"] == f"/accounts/sign-in?next={path}"


# Guessing (D21) -------------------------------------------------------------------------------------------------------


def fail(times: int, email: str, browser: Client | None = None, address: str = "192.0.2.1") -> Any:
    for _ in range(times):
        response = (browser or Client()).post(
            "/accounts/sign-in", {"login": email, "password": "wrong password"}, REMOTE_ADDR=address
        )
    return response


def test_the_eleventh_failure_for_an_account_is_refused(alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    assert fail(10, alice.email).status_code == 200
    response = fail(1, alice.email)
    assert response.status_code == 429
    assert 1 <= int(response["Retry-After"]) <= 900
    assert re.search(r"Too many sign-ins have failed, .* Try again in \d+ (minute|second)s?,", text_of(response))


def test_the_right_password_is_not_even_looked_at_beyond_the_limit(alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    fail(3, alice.email, address="127.0.0.1")
    assert sign_in(Client(), alice.email).status_code == 429


def test_an_account_that_does_not_exist_is_limited_alike(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    assert fail(4, "nobody@example.com").status_code == 429


def test_spellings_of_an_address_count_together(alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    fail(1, alice.email)
    fail(1, alice.email.upper())
    assert fail(1, f" {alice.email} ").status_code == 429


def test_an_address_that_guesses_at_many_accounts_is_refused(settings: Any) -> None:
    settings.RATES = {"sign_in_address": "5/15m"}
    for number in range(5):
        assert fail(1, f"person{number}@example.com").status_code == 200
    assert fail(1, "another@example.com").status_code == 429
    assert fail(1, "another@example.com", address="198.51.100.1").status_code == 200


def test_successes_count_nothing(alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/15m", "sign_in_address": "2/15m"}
    for _ in range(5):
        assert sign_in(Client(), alice.email).status_code == 302


def test_mallory_can_not_lock_alices_own_browser_out(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m", "sign_in_address": "3/15m"}
    sign_in(client, alice.email)
    client.post("/accounts/sign-out")
    assert fail(5, alice.email, address="127.0.0.1").status_code == 429
    assert sign_in(client, alice.email).status_code == 302


def test_a_browser_that_knows_the_account_is_limited_as_well(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    sign_in(client, alice.email)
    client.post("/accounts/sign-out")
    assert fail(4, alice.email, browser=client).status_code == 429


def test_mallorys_own_account_opens_no_way_around_the_limit_of_alices(
    client: Client, alice: User, settings: Any
) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    mallory = PersonFactory(nickname="Mallory")
    sign_in(client, mallory.email)
    client.post("/accounts/sign-out")
    assert fail(4, alice.email, browser=client).status_code == 429


@pytest.mark.parametrize("cookie", ["", "rubbish", "WyJhIl0:1abc:def", "é"])
def test_a_forged_known_browser_is_a_stranger(alice: User, settings: Any, cookie: str) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    mallory = Client()
    mallory.cookies[settings.KNOWN_BROWSER_COOKIE_NAME] = cookie
    assert fail(4, alice.email, browser=mallory).status_code == 429


def test_the_known_browser_names_nobody(client: Client, alice: User) -> None:
    sign_in(client, alice.email)
    cookie = client.cookies[settings.KNOWN_BROWSER_COOKIE_NAME]
    assert alice.email not in cookie.value
    assert str(alice.pk) not in cookie.value


def test_five_people_share_a_browser(client: Client) -> None:
    for person in PersonFactory.create_batch(6):
        sign_in(client, person.email)
        client.post("/accounts/sign-out")
    request = client.get("/accounts/sign-in").wsgi_request
    request.COOKIES = {name: morsel.value for name, morsel in client.cookies.items()}
    assert len(known_browsers.read(request)) == 5


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (61, "2 minutes")]
)
def test_the_message_says_when_to_retry(seconds: int, words: str) -> None:
    assert f"Try again in {words}, or" in AccountFault.SIGN_IN_LIMITED.translate(seconds=seconds)
