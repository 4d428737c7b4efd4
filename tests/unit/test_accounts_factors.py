"""The second factor after the password, recovery codes, and what a passkey form refuses."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.management import call_command
from django.test import Client, override_settings

from accounts.factors import passkey_host
from accounts.models import User
from tests.dump import database_text
from tests.factories import PersonFactory
from tests.factors import APP, CODES, PASSKEY, SECOND, Account, code_of
from tests.pages import ask_for_link, browser_of, choose, deliver_all, html_of, is_signed_in, mailed_path, sign_in

pytestmark = pytest.mark.django_db

PAGES = [APP, CODES, f"{CODES}/new", f"{APP}/off", "/accounts/security/passkeys/add"]


# Signing in ----------------------------------------------------------------------------------------------------------


def test_the_password_alone_no_longer_signs_in(account: Account) -> None:
    browser = Client()
    answer = sign_in(browser, account.person.email)
    assert answer["Location"] == SECOND
    assert not is_signed_in(browser)
    page = html_of(browser.get(SECOND))
    assert "Code from your authenticator app" in page
    assert "Use a passkey" not in page, "this person has none"


def test_the_code_signs_in_and_leads_on(account: Account) -> None:
    browser = Client()
    sign_in(browser, account.person.email, next="/oauth/authorize?pending=x")
    assert browser.post(SECOND, {"code": code_of(account.secret, 2)}).status_code == 200, "a code of the future"
    answer = browser.post(SECOND, {"code": code_of(account.secret)})
    assert answer["Location"] == "/oauth/authorize?pending=x"
    assert is_signed_in(browser)


def test_a_code_may_be_typed_with_spaces(account: Account) -> None:
    browser = account.browser_before_code()
    typed = f" {account.codes[1][:4]} {account.codes[1][4:]}"
    assert browser.post(SECOND, {"code": typed}).status_code == 302
    assert is_signed_in(browser)


def test_a_recovery_code_works_once(account: Account) -> None:
    for expected in (302, 200):
        browser = account.browser_before_code()
        assert browser.post(SECOND, {"code": account.codes[0]}).status_code == expected
        assert is_signed_in(browser) is (expected == 302)


def test_a_wrong_code_is_told_to_wait_only_where_waiting_helps(account: Account) -> None:
    browser = account.browser_before_code()
    assert "wait for the next one" in html_of(browser.post(SECOND, {"code": "000000"}))
    answer = html_of(browser.post(SECOND, {"code": "00000000"}))
    assert "no recovery code of yours that is still unused" in answer
    assert "wait" not in answer


@pytest.mark.parametrize("code", ["", "\x00", "1" * 5000, "é", "١٢٣٤٥٦"])
def test_nonsense_is_a_wrong_code(account: Account, code: str) -> None:
    browser = account.browser_before_code()
    assert browser.post(SECOND, {"code": code}).status_code == 200
    assert not is_signed_in(browser)


def test_without_a_password_the_page_of_the_code_leads_to_the_sign_in(client: Client, account: Account) -> None:
    for answer in (client.get(SECOND), client.post(SECOND, {"code": account.codes[0]})):
        assert answer["Location"].startswith("/accounts/sign-in")


def test_an_account_that_was_deactivated_meanwhile_is_not_signed_in(account: Account) -> None:
    browser = account.browser_before_code()
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
        assert "/accounts/confirm/code" in html_of(account.browser.get(confirm))
        query = confirm.partition("?")[2]
        assert account.browser.post(f"/accounts/confirm/code?{query}", {"code": account.codes[2]})["Location"] == wanted
        assert account.browser.get(wanted).status_code == 200


def test_recovery_codes_are_shown_once(account: Account) -> None:
    assert len(account.codes) == 10
    page = html_of(account.browser.get(CODES))
    assert not any(code in page for code in account.codes)
    assert "10 codes are left" in page


def test_new_recovery_codes_replace_the_old_ones(account: Account) -> None:
    account.browser.post(f"{CODES}/new")
    browser = account.browser_before_code()
    assert browser.post(SECOND, {"code": account.codes[0]}).status_code == 200


def test_switched_off_the_password_is_enough_again(account: Account) -> None:
    assert account.browser.post(f"{APP}/off")["Location"] == "/accounts/security"
    assert not Authenticator.objects.exists()
    assert is_signed_in(browser_of(account.person))


def test_the_person_is_told_by_mail(alice: User, django_capture_on_commit_callbacks: Any) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        account = Account(alice)
    with django_capture_on_commit_callbacks(execute=True):
        account.browser.post(f"{APP}/off")
    deliver_all()
    subjects = [letter.subject for letter in mail.outbox]
    assert [subject.partition(" at ")[0] for subject in subjects] == [
        "An authenticator app was set up",
        "The authenticator app was switched off",
    ]
    assert all(letter.to == [account.person.email] for letter in mail.outbox)


def test_a_new_password_by_mail_does_not_replace_the_second_factor(account: Account) -> None:
    browser = Client()
    ask_for_link(browser, account.person.email)
    assert choose(browser, mailed_path())["Location"] == SECOND
    assert not is_signed_in(browser)


def test_an_operator_removes_the_factors_of_a_person_who_lost_them(account: Account) -> None:
    call_command("account", "remove-factors", account.person.email)
    assert not is_signed_in(account.browser)
    assert sign_in(account.browser, account.person.email)["Location"] == "/accounts/profile"


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
    browser = account.browser_before_code()
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
        "",
        "null",
        "[]",
        "{}",
        "1",
        '"x"',
        "[" * 40_000,
        "\x00",
        credential(response=None),
        credential(response={"clientDataJSON": 1}),
        credential(response={"clientDataJSON": "é"}),
        credential("https://evil.example"),
        credential("http://testserver:1"),
    ],
)
def test_nonsense_is_no_passkey(client: Client, answer: str) -> None:
    client.get(PASSKEY)
    response = client.post(f"{PASSKEY}?next=/accounts/profile", {"credential": answer})
    assert response.status_code == 302
    assert response["Location"] == "/accounts/sign-in?next=%2Faccounts%2Fprofile"
    assert "sent no passkey" in html_of(client.get(response["Location"]))


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
    assert passkey_host.are_possible() is are_possible


@pytest.mark.parametrize("are_possible", [True, False])
def test_the_button_is_there_where_passkeys_are_possible(client: Client, monkeypatch: Any, are_possible: bool) -> None:
    monkeypatch.setattr(passkey_host, "are_possible", lambda: are_possible)
    assert ("Use a passkey" in html_of(client.get("/accounts/sign-in"))) is are_possible


def test_the_file_with_the_persons_data_names_the_factors_without_secrets(account: Account) -> None:
    text = html_of(account.browser.post("/accounts/export"))
    assert [each["type"] for each in json.loads(text)["factors"]] == ["totp", "recovery_codes"]
    assert account.secret not in text
    assert "seed" not in text
