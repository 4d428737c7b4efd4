"""The second factor after the password, recovery codes, and what a passkey form refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import struct
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.management import call_command
from django.test import Client, override_settings

from accounts import outbox, passkeys
from accounts.models import User
from tests.dump import database_text
from tests.factories import PASSWORD, PersonFactory

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters")]

ACTIVATE = "/accounts/security/authenticator"
CODES = "/accounts/security/recovery-codes"
PASSKEY = "/accounts/sign-in/passkey"
SECOND = "/accounts/sign-in/code"
PAGES = [ACTIVATE, CODES, f"{CODES}/new", f"{ACTIVATE}/off", "/accounts/security/passkeys/add"]


def sign_in(browser: Client, email: str, to: str = "") -> Any:
    return browser.post("/accounts/sign-in", {"login": email, "password": PASSWORD, **({"next": to} if to else {})})


def code_of(secret: str, steps: int = 0) -> str:
    """The code of an authenticator app now, or so many steps of 30 seconds later. RFC 6238."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    mac = hmac.digest(base64.b32decode(secret), counter, hashlib.sha1)
    number = struct.unpack(">I", mac[mac[-1] & 15 :][:4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


class Account:
    """Alice with an authenticator app, and the browser in which she set it up."""

    def __init__(self, person: User) -> None:
        self.person, self.browser = person, Client()
        sign_in(self.browser, person.email)
        page = text_of(self.browser.get(ACTIVATE))
        self.secret = re.findall(r'<code dir="ltr">([A-Z2-7]+)</code>', page)[0]
        self.answer = self.browser.post(ACTIVATE, {"code": code_of(self.secret)})
        assert self.answer.status_code == 302, text_of(self.answer)
        self.codes = re.findall(r'<code dir="ltr">(\d+)</code>', text_of(self.browser.get(self.answer["Location"])))


@pytest.fixture
def account(alice: User) -> Account:
    return Account(alice)


def is_signed_in(browser: Client) -> bool:
    return bool(browser.get("/accounts/profile").status_code == 200)


# Signing in ----------------------------------------------------------------------------------------------------------


def test_the_password_alone_no_longer_signs_in(account: Account) -> None:
    browser = Client()
    answer = sign_in(browser, account.person.email)
    assert answer["Location"] == SECOND
    assert not is_signed_in(browser)
    page = text_of(browser.get(SECOND))
    assert "Code from your authenticator app" in page
    assert "Use a passkey" not in page, "this person has none"


def test_the_code_signs_in_and_leads_on(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email, to="/oauth/authorize?pending=x")
    assert browser.post(SECOND, {"code": code_of(account.secret, 2)}).status_code == 200, "a code of the future"
    answer = browser.post(SECOND, {"code": code_of(account.secret)})
    assert answer["Location"] == "/oauth/authorize?pending=x"
    assert is_signed_in(browser)


def test_a_code_may_be_typed_with_spaces(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    typed = f" {account.codes[1][:4]} {account.codes[1][4:]}"
    assert browser.post(SECOND, {"code": typed}).status_code == 302
    assert is_signed_in(browser)


def test_a_recovery_code_works_once(account: Account) -> None:
    for expected in (302, 200):
        browser = Client()
        sign_in(browser, account.person.email)
        assert browser.post(SECOND, {"code": account.codes[0]}).status_code == expected
        assert is_signed_in(browser) is (expected == 302)


def test_wrong_codes_are_limited_and_the_right_one_waits_too(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    for _ in range(5):
        assert "This code is not right" in text_of(browser.post(SECOND, {"code": "000000"}))
    assert "Too many attempts" in text_of(browser.post(SECOND, {"code": account.codes[0]}))
    assert not is_signed_in(browser)


@pytest.mark.parametrize("code", ["", "\x00", "1" * 5000, "é", "١٢٣٤٥٦"])
def test_nonsense_is_a_wrong_code(account: Account, code: str) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    assert browser.post(SECOND, {"code": code}).status_code == 200
    assert not is_signed_in(browser)


def test_without_a_password_the_page_of_the_code_leads_to_the_sign_in(client: Client, account: Account) -> None:
    for answer in (client.get(SECOND), client.post(SECOND, {"code": account.codes[0]})):
        assert answer["Location"].startswith("/accounts/sign-in")


def test_an_account_that_was_deactivated_meanwhile_is_not_signed_in(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email)
    User.objects.update(is_active=False)
    browser.post(SECOND, {"code": account.codes[0]})
    assert not is_signed_in(browser)


# The page "Security" -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_the_pages_are_for_people_signed_in(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/sign-in")


@pytest.mark.parametrize("path", PAGES)
def test_an_old_sign_in_must_be_confirmed(account: Account, path: str) -> None:
    with time_machine.travel(time.time() + 600):
        assert account.browser.get(path)["Location"].startswith("/accounts/confirm")


def test_the_code_confirms_as_the_password_does(account: Account) -> None:
    with time_machine.travel(time.time() + 600):
        wanted = f"{CODES}/new"
        confirm = account.browser.get(wanted)["Location"]
        assert "/accounts/confirm/code" in text_of(account.browser.get(confirm))
        query = confirm.partition("?")[2]
        assert account.browser.post(f"/accounts/confirm/code?{query}", {"code": account.codes[2]})["Location"] == wanted
        assert account.browser.get(wanted).status_code == 200


def test_recovery_codes_are_shown_once(account: Account) -> None:
    assert len(account.codes) == 10
    page = text_of(account.browser.get(CODES))
    assert not any(code in page for code in account.codes)
    assert "10 codes are left" in page


def test_new_recovery_codes_replace_the_old_ones(account: Account) -> None:
    account.browser.post(f"{CODES}/new")
    browser = Client()
    sign_in(browser, account.person.email)
    assert browser.post(SECOND, {"code": account.codes[0]}).status_code == 200


def test_switched_off_the_password_is_enough_again(account: Account) -> None:
    assert account.browser.post(f"{ACTIVATE}/off")["Location"] == "/accounts/security"
    assert not Authenticator.objects.exists()
    browser = Client()
    sign_in(browser, account.person.email)
    assert is_signed_in(browser)


def test_the_person_is_told_by_mail(alice: User, django_capture_on_commit_callbacks: Any) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        account = Account(alice)
    with django_capture_on_commit_callbacks(execute=True):
        account.browser.post(f"{ACTIVATE}/off")
    while outbox.deliver_next():
        pass
    subjects = [letter.subject for letter in mail.outbox]
    assert [subject.partition(" at ")[0] for subject in subjects] == [
        "An authenticator app was set up",
        "The authenticator app was switched off",
    ]
    assert all(letter.to == [account.person.email] for letter in mail.outbox)


def test_a_new_password_by_mail_does_not_replace_the_second_factor(account: Account) -> None:
    browser = Client()
    browser.post("/accounts/password/reset", {"email": account.person.email})
    found = re.search(r"/accounts/password/reset/\S+-\S+", mail.outbox[-1].body)
    assert found
    page = browser.get(found[0], follow=True)
    new = "another battery staple"
    answer = browser.post(page.context["action_url"], {"password1": new, "password2": new}, follow=True)
    assert answer.request["PATH_INFO"] == SECOND
    assert not is_signed_in(browser)


def test_an_operator_removes_the_factors_of_a_person_who_lost_them(account: Account) -> None:
    call_command("account", "remove-factors", account.person.email)
    assert not is_signed_in(account.browser)
    assert sign_in(account.browser, account.person.email)["Location"] == "/accounts/profile"


# The administration --------------------------------------------------------------------------------------------------


@pytest.fixture
def administrator(alice: User, settings: Any) -> User:
    settings.STAFF_SECOND_FACTOR = True
    alice.is_staff = alice.is_superuser = True
    alice.save()
    return alice


def test_an_administrator_without_a_factor_is_asked_to_add_one(administrator: User) -> None:
    browser = Client()
    sign_in(browser, administrator.email)
    answer = browser.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0] == "/accounts/security"
    assert "Administrators need a second factor" in text_of(answer)


def test_a_factor_that_was_just_set_up_is_asked_for_once(administrator: User) -> None:
    account = Account(administrator)
    answer = account.browser.get("/admin/", follow=True)
    assert answer.request["PATH_INFO"] == "/accounts/confirm/code"
    answer = account.browser.post(
        f"/accounts/confirm/code?{answer.request['QUERY_STRING']}", {"code": account.codes[0]}
    )
    assert answer["Location"] == "/admin/"
    assert account.browser.get("/admin/").status_code == 200


def test_an_administrator_enters_with_the_second_factor(administrator: User) -> None:
    account, browser = Account(administrator), Client()
    sign_in(browser, administrator.email, to="/admin/")
    assert browser.post(SECOND, {"code": account.codes[0]})["Location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200


def test_with_the_factor_removed_the_administration_is_closed(administrator: User) -> None:
    account, browser = Account(administrator), Client()
    sign_in(browser, administrator.email, to="/admin/")
    browser.post(SECOND, {"code": account.codes[0]})
    Authenticator.objects.all().delete()
    assert browser.get("/admin/").status_code == 302


def test_who_is_no_administrator_is_refused_with_a_factor_too(account: Account, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = True
    assert account.browser.get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize("model", ["authenticator", "emailaddress"])
def test_the_administration_shows_no_factor(administrator: User, settings: Any, model: str) -> None:
    settings.STAFF_SECOND_FACTOR = False
    browser = Client()
    sign_in(browser, administrator.email)
    for app in ("mfa", "account"):
        assert browser.get(f"/admin/{app}/{model}/").status_code == 404


# What is stored ------------------------------------------------------------------------------------------------------


def test_the_database_holds_no_readable_secret(account: Account) -> None:
    dump = database_text()
    assert account.secret not in dump
    assert not any(code in dump for code in account.codes)


def test_with_another_secret_key_no_code_fits(account: Account) -> None:
    with override_settings(SECRET_KEY="another key of more than fifty characters, made for this test"):
        browser = Client()
        assert sign_in(browser, account.person.email)["Location"] == SECOND
        for code in (account.codes[0], code_of(account.secret, 1)):
            assert browser.post(SECOND, {"code": code}).status_code == 200
        assert not is_signed_in(browser)


def test_with_the_old_secret_key_as_a_fallback_codes_fit(account: Account, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of more than fifty characters, made for this test"
    browser = Client()
    sign_in(browser, account.person.email)
    assert browser.post(SECOND, {"code": account.codes[0]}).status_code == 302


# Passkeys ------------------------------------------------------------------------------------------------------------


def credential(origin: str = "http://testserver", **changes: Any) -> str:
    client_data = (
        base64.urlsafe_b64encode(json.dumps({"origin": origin, "challenge": ""}).encode()).decode().rstrip("=")
    )
    return json.dumps(
        {"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": client_data}} | changes
    )


@pytest.mark.parametrize(
    "answer",
    [
        *("", "null", "[]", "{}", "1", '"x"', "[" * 60_000, "\x00"),
        *(
            credential(response=None),
            credential(response={"clientDataJSON": 1}),
            credential(response={"clientDataJSON": "é"}),
        ),
        *(credential("https://evil.example"), credential("http://testserver:1")),
    ],
)
def test_nonsense_is_no_passkey(client: Client, answer: str) -> None:
    client.get(PASSKEY)
    response = client.post(f"{PASSKEY}?next=/accounts/profile", {"credential": answer})
    assert response.status_code == 302
    assert response["Location"] == "/accounts/sign-in?next=%2Faccounts%2Fprofile"
    assert "sent no passkey" in text_of(client.get(response["Location"]))


def test_a_person_who_signed_in_in_another_tab_goes_on(client: Client, alice: User) -> None:
    sign_in(client, alice.email)
    answer = client.post(f"{PASSKEY}?next=/oauth/authorize%3Fpending%3Dx", {"credential": credential()})
    assert answer["Location"] == "/oauth/authorize?pending=x"


def test_the_options_name_the_host_of_the_pages_and_no_account(client: Client, alice: User) -> None:
    options = client.get(PASSKEY).json()["request_options"]["publicKey"]
    assert options["rpId"] == "testserver"
    assert options["userVerification"] == "required"
    assert not options.get("allowCredentials")


def test_many_requests_for_options_are_refused(client: Client) -> None:
    statuses = [client.get(PASSKEY).status_code for _ in range(61)]
    assert set(statuses[:60]) == {200}
    assert statuses[60] == 429


@pytest.mark.parametrize("action", ["", "/remove"])
def test_mallory_does_not_touch_the_passkey_of_another_person(alice: User, action: str) -> None:
    mallory, browser = PersonFactory(), Client()
    passkey = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Telephone", "credential": {}})
    sign_in(browser, mallory.email)
    path = f"/accounts/security/passkeys/{passkey.pk}{action}"
    assert browser.get(path).status_code == 404
    assert browser.post(path, {"name": "Mine"}).status_code == 404
    assert Authenticator.objects.get().data["name"] == "Telephone"


@pytest.mark.parametrize(
    ("url", "are_possible"),
    [
        ("https://auth.example.com", True),
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
    ],
)
def test_passkeys_need_a_host_name(settings: Any, url: str, are_possible: bool) -> None:
    settings.AUTH_URL = url
    assert passkeys.are_possible() is are_possible


@pytest.mark.parametrize("are_possible", [True, False])
def test_the_button_is_there_where_passkeys_are_possible(client: Client, monkeypatch: Any, are_possible: bool) -> None:
    monkeypatch.setattr(passkeys, "are_possible", lambda: are_possible)
    assert ("Use a passkey" in text_of(client.get("/accounts/sign-in"))) is are_possible


def test_the_file_with_the_persons_data_names_the_factors_without_secrets(account: Account) -> None:
    text = text_of(account.browser.post("/accounts/export"))
    assert [each["type"] for each in json.loads(text)["factors"]] == ["totp", "recovery_codes"]
    assert account.secret not in text
    assert "seed" not in text
