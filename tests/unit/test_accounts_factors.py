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
from django.test import Client

from accounts.factors import passkey_host
from accounts.models import User
from tests.dump import database_text
from tests.factories import PersonFactory
from tests.factors import ADD, APP, CODES, PASSKEY, SECOND, Account, code_of, codes_on
from tests.pages import ask_for_link, browser_of, choose, deliver_all, html_of, is_signed_in, mailed_path, sign_in

pytestmark = pytest.mark.django_db

PAGES = [APP, CODES, f"{CODES}/new", f"{APP}/off", ADD]


# Signing in ----------------------------------------------------------------------------------------------------------


def test_the_code_signs_in_after_the_password_and_leads_on(client: Client, account: Account) -> None:
    for answer in (client.get(SECOND), client.post(SECOND, {"code": account.codes[0]})):
        assert answer["Location"].startswith("/accounts/sign-in"), "the password comes first"
    account.browser_before_code(client, next="/oauth/authorize?pending=x")
    assert not is_signed_in(client)
    page = html_of(client.get(SECOND))
    assert "Code from your authenticator app" in page
    assert "Use a passkey" not in page, "this person has none"
    assert client.post(SECOND, {"code": code_of(account.secret, 2)}).status_code == 200, "a code of the future"
    answer = client.post(SECOND, {"code": code_of(account.secret)})
    assert answer["Location"] == "/oauth/authorize?pending=x"
    assert is_signed_in(client)


def test_a_recovery_code_works_once_in_either_spelling(account: Account) -> None:
    code = account.codes[0]
    for typed, expected in ((f" {code[:4]} {code[4:]}", 302), (code, 200)):
        browser = account.browser_before_code()
        assert browser.post(SECOND, {"code": typed}).status_code == expected
        assert is_signed_in(browser) is (expected == 302)


def test_a_wrong_code_is_told_to_wait_only_where_waiting_helps(account: Account) -> None:
    browser = account.browser_before_code()
    assert "wait for the next one" in html_of(browser.post(SECOND, {"code": "000000"}))
    answer = html_of(browser.post(SECOND, {"code": "00000000"}))
    assert "no recovery code of yours that is still unused" in answer
    assert "wait" not in answer
    for nonsense in ("", "\x00", "1" * 5000, "é", "١٢٣٤٥٦"):
        assert browser.post(SECOND, {"code": nonsense}).status_code == 200
    assert not is_signed_in(browser)


# While something else happens ----------------------------------------------------------------------------------------


def test_an_account_that_was_deactivated_meanwhile_is_not_signed_in(account: Account) -> None:
    browser = account.browser_before_code()
    User.objects.update(is_active=False)
    browser.post(SECOND, {"code": account.codes[0]})
    assert not is_signed_in(browser)


@pytest.mark.parametrize("action", ["remove-factors", "delete"])
def test_factors_that_are_gone_during_a_sign_in_let_it_start_again(account: Account, action: str) -> None:
    browser, person = account.browser_before_code(), account.person
    if action == "delete":
        person.delete()
        person = PersonFactory()
    else:
        call_command("account", "remove-factors", person.email)
        assert not is_signed_in(account.browser)
    assert browser.get(SECOND)["Location"] == "/accounts/sign-in"
    assert browser.get("/accounts/sign-in").status_code == 200
    assert not is_signed_in(browser)
    assert sign_in(browser, person.email)["Location"] == "/accounts/profile"
    assert is_signed_in(browser)


def test_an_authenticator_app_that_is_set_up_in_two_tabs_at_once_is_stored_once(
    account: Account, monkeypatch: Any
) -> None:
    monkeypatch.setattr("allauth.mfa.totp.views.is_mfa_enabled", lambda _person, _types: False)
    secret = codes_on(account.browser.get(APP))[0]
    answer = account.browser.post(APP, {"code": code_of(secret)})
    assert answer["Location"] == "/accounts/security"
    assert Authenticator.objects.filter(type="totp").count() == 1


# The page "Security" -------------------------------------------------------------------------------------------------


def test_the_pages_are_for_people_whose_sign_in_is_new(client: Client, account: Account) -> None:
    for path in PAGES:
        assert client.get(path)["Location"].startswith("/accounts/sign-in")
    with time_machine.travel(time.time() + 600):
        for path in PAGES:
            assert account.browser.get(path)["Location"].startswith("/accounts/confirm")


def test_the_code_confirms_as_the_password_does(account: Account) -> None:
    with time_machine.travel(time.time() + 600):
        wanted = f"{CODES}/new"
        confirm = account.browser.get(wanted)["Location"]
        assert "/accounts/confirm/code" in html_of(account.browser.get(confirm))
        query = confirm.partition("?")[2]
        assert account.browser.post(f"/accounts/confirm/code?{query}", {"code": account.codes[2]})["Location"] == wanted
        assert account.browser.get(wanted).status_code == 200


def test_recovery_codes_are_shown_once_and_replaced_by_new_ones(alice: User) -> None:
    browser = browser_of(alice)
    browser.post(APP, {"code": code_of(codes_on(browser.get(APP))[0])})
    assert browser.head(CODES).status_code == 200, "which shows none"
    codes = codes_on(browser.get(CODES))
    assert len(codes) == 10
    page = html_of(browser.get(CODES))
    assert not any(code in page for code in codes)
    assert "10 codes are left" in page
    browser.post(f"{CODES}/new")
    sign_in(client := Client(), alice.email)
    assert client.post(SECOND, {"code": codes[0]}).status_code == 200


def test_switched_off_the_password_is_enough_again_and_both_is_told_by_mail(
    alice: User, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        account = Account(alice)
    with django_capture_on_commit_callbacks(execute=True):
        assert account.browser.post(f"{APP}/off")["Location"] == "/accounts/security"
    assert not Authenticator.objects.exists()
    deliver_all()
    assert [letter.subject.partition(" at ")[0] for letter in mail.outbox] == [
        "An authenticator app was set up",
        "The authenticator app was switched off",
    ]
    assert all(letter.to == [alice.email] for letter in mail.outbox)
    assert is_signed_in(browser_of(alice))


def test_a_new_password_by_mail_does_not_replace_the_second_factor(account: Account) -> None:
    browser = Client()
    ask_for_link(browser, account.person.email)
    assert choose(browser, mailed_path())["Location"] == SECOND
    assert not is_signed_in(browser)


# What is stored ------------------------------------------------------------------------------------------------------


def test_neither_the_database_nor_the_file_with_the_persons_data_holds_a_readable_secret(account: Account) -> None:
    dump, text = database_text(), html_of(account.browser.post("/accounts/export"))
    assert [each["type"] for each in json.loads(text)["factors"]] == ["totp", "recovery_codes"]
    assert not [secret for secret in (account.secret, *account.codes) if secret in dump + text]
    assert "seed" not in text


def test_with_another_secret_key_no_code_fits_unless_the_old_one_is_a_fallback(account: Account, settings: Any) -> None:
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key of more than fifty characters, made for this test"
    browser = account.browser_before_code()
    for code in (account.codes[0], code_of(account.secret, 1)):
        assert browser.post(SECOND, {"code": code}).status_code == 200
    assert not is_signed_in(browser)
    settings.SECRET_KEY_FALLBACKS = [old]
    assert account.browser_before_code().post(SECOND, {"code": account.codes[0]}).status_code == 302


# Passkeys ------------------------------------------------------------------------------------------------------------


def credential(origin: str = "http://testserver", **changes: Any) -> str:
    facts = json.dumps({"origin": origin, "challenge": ""}).encode()
    response = {"clientDataJSON": base64.urlsafe_b64encode(facts).decode().rstrip("=")}
    return json.dumps({"id": "AA", "rawId": "AA", "type": "public-key", "response": response} | changes)


def test_nonsense_is_no_passkey(client: Client) -> None:
    client.get(PASSKEY)
    for answer in (
        *("", "null", "[]", "{}", "1", '"x"', "[" * 40_000, "\x00"),
        credential(response=None),
        credential(response={"clientDataJSON": 1}),
        credential(response={"clientDataJSON": "é"}),
        credential("https://evil.example"),
        credential("http://testserver:1"),
    ):
        response = client.post(f"{PASSKEY}?next=/accounts/profile", {"credential": answer})
        assert response.status_code == 302
        assert response["Location"] == "/accounts/sign-in?next=%2Faccounts%2Fprofile"
        assert "sent no passkey" in html_of(client.get(response["Location"]))


def test_a_person_who_signed_in_in_another_tab_goes_on(browser: Client) -> None:
    answer = browser.post(f"{PASSKEY}?next=/oauth/authorize%3Fpending%3Dx", {"credential": credential()})
    assert answer["Location"] == "/oauth/authorize?pending=x"


def test_the_options_name_the_host_of_the_pages_and_no_account_and_are_given_60_times(client: Client) -> None:
    options = client.get(PASSKEY).json()["request_options"]["publicKey"]
    assert options["rpId"] == "testserver"
    assert options["userVerification"] == "required"
    assert not options.get("allowCredentials")
    assert [client.get(PASSKEY).status_code for _ in range(60)] == [200] * 59 + [429]


def test_mallory_does_not_touch_the_passkey_of_another_person(alice: User) -> None:
    mallory = browser_of(PersonFactory())
    passkey = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Telephone", "credential": {}})
    for action in ("", "/remove"):
        path = f"/accounts/security/passkeys/{passkey.pk}{action}"
        assert mallory.get(path).status_code == 404
        assert mallory.post(path, {"name": "Mine"}).status_code == 404
    assert Authenticator.objects.get().data["name"] == "Telephone"


def test_passkeys_need_a_host_name(settings: Any) -> None:
    for url, are_possible in (
        ("https://auth.example.com", True),
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
    ):
        settings.AUTH_URL = url
        assert passkey_host.are_possible() is are_possible


@pytest.mark.parametrize("are_possible", [True, False])
def test_the_button_is_there_where_passkeys_are_possible(client: Client, monkeypatch: Any, are_possible: bool) -> None:
    monkeypatch.setattr(passkey_host, "are_possible", lambda: are_possible)
    assert ("Use a passkey" in html_of(client.get("/accounts/sign-in"))) is are_possible
