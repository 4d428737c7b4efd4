"""The second factor: codes of authenticator apps, recovery codes, passkeys, and what administrators need."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail, signing
from django.core.cache import caches
from django.test import Client

from accounts.models import User
from config.infrastructure.texts import typed_code
from tests.factories import PASSWORD, PersonFactory, database_text
from tests.pages import (
    ADD,
    APP,
    CODES,
    SECOND,
    Account,
    browser_of,
    code_of,
    codes_on,
    deliver_all,
    html_of,
    is_signed_in,
    with_session,
)

pytestmark = pytest.mark.django_db

OWN = ["/accounts/export", "/accounts/delete", "/accounts/email"]
PAGES = [APP, CODES, f"{CODES}/new", f"{APP}/off", ADD, *OWN]


def test_a_right_code_is_right_once_however_a_keyboard_or_a_copy_spells_it(account: Account) -> None:
    spellings = ["٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "\t0123456789\n"]
    spellings += ["\u00a0012\u202f3456789\u3000", "\u200f\ufeff01\u200b\u00ad23456789\u2060\ufe0f\u200e"]
    spellings += ["0\u22121\u2011\uff0d2\ufe58\u30fc3\u2013456789"]
    assert {typed_code(each) for each in spellings} == {"0123456789"}
    for code in (code_of(account.secret), account.codes[0]):
        # In full width, with a space and an invisible character.
        spelled = f" \u200b{code}".translate({each: each + 0xFEE0 for each in range(0x21, 0x7F)}).lower()
        for status in (302, 200):
            assert account.browser_before_code().post(SECOND, {"code": spelled}).status_code == status, "once"


def test_the_code_signs_in_after_the_password_and_leads_on(client: Client, account: Account) -> None:
    for answer in (client.get(SECOND), client.post(SECOND, {"code": account.codes[0]})):
        assert answer["Location"].startswith("/accounts/sign-in"), "the password comes first"
    account.browser_before_code(client, next="/oauth/authorize?pending=x")
    assert not is_signed_in(client)
    assert "Use a passkey" not in html_of(client.get(SECOND)), "this person has none"
    assert client.post(SECOND, {"code": code_of(account.secret, 2)}).status_code == 200, "a code of the future"
    answer = client.post(SECOND, {"code": code_of(account.secret)})
    assert answer["Location"] == "/oauth/authorize?pending=x"
    assert is_signed_in(client)


def test_each_sensitive_page_asks_for_a_proof_unless_a_sign_in_is_new(client: Client, account: Account) -> None:
    strict, stolen = Client(enforce_csrf_checks=True), with_session(account.person)
    strict.cookies = account.browser.cookies
    for path in OWN:
        for sender, led in ((client, "/accounts/sign-in"), (stolen, "/accounts/confirm?"), (strict, path)):
            assert sender.post(path, {"email": account.person.email})["Location"].startswith(led)
        assert account.person.email not in str(dict(stolen.session)), "no form is kept in the session"
    assert all(client.get(path)["Location"].startswith("/accounts/sign-in") for path in PAGES)
    assert with_session(PersonFactory(password="!unusable")).get(OWN[0])["Location"] == "/accounts/password/reset"
    with time_machine.travel(time.time() + 301):
        led = [account.browser.get(path)["Location"] for path in PAGES]
        assert account.browser.post("/accounts/email").status_code == 200, "the form was open for some minutes"
    with time_machine.travel(time.time() + 901):
        late = [account.browser.post(path)["Location"] for path in OWN]
        assert all(location.startswith("/accounts/confirm?") for location in led + late)
        query = led[0].partition("?")[2]
        assert account.browser.post(f"/accounts/confirm/code?{query}", {"code": account.codes[2]})["Location"] == APP
        assert account.browser.get(CODES).status_code == 200


def test_recovery_codes_are_shown_once_replaced_and_downloaded_by_whoever_has_seen_them(account: Account) -> None:
    assert (len(account.codes), codes_on(account.browser.get(CODES))) == (10, [])
    page = account.browser.get(account.browser.post(f"{CODES}/new").headers["Location"])
    assert account.browser_before_code().post(SECOND, {"code": account.codes[0]}).status_code == 200
    [signed] = re.findall(r'name="codes" value="([^"]+)"', html_of(page))
    answer = account.browser.post(CODES, {"codes": signed})
    assert answer["Content-Disposition"] == 'attachment; filename="recovery-codes.txt"'
    assert "no-store" in answer["Cache-Control"]
    lines = html_of(answer).splitlines()
    assert lines[0] == f"Recovery codes of {account.person.email} at Delegated Sign-In"
    assert lines[2:12] == codes_on(page)
    for unsigned in ("", signing.dumps(account.codes)):
        assert account.browser.post(CODES, {"codes": unsigned})["Location"] == CODES


def test_switched_off_the_password_is_enough_again_and_both_is_told_by_mail(account: Account) -> None:
    assert account.browser.post(f"{APP}/off")["Location"] == "/accounts/security"
    deliver_all()
    assert [(letter.subject.partition(" at ")[0], letter.to) for letter in mail.outbox] == [
        ("An authenticator app was set up", [account.person.email]),
        ("The authenticator app was switched off", [account.person.email]),
    ]
    assert is_signed_in(browser_of(account.person))


def test_neither_the_database_nor_the_file_with_the_persons_data_holds_a_readable_secret(account: Account) -> None:
    dump, text = database_text(), html_of(account.browser.post("/accounts/export"))
    assert [each["type"] for each in json.loads(text)["factors"]] == ["totp", "recovery_codes"]
    assert not [secret for secret in (account.secret, *account.codes) if secret in dump + text]
    assert "seed" not in text


def test_with_another_secret_key_no_code_fits_unless_the_old_one_is_a_fallback(account: Account, settings: Any) -> None:
    used = code_of(account.secret)
    assert account.browser_before_code().post(SECOND, {"code": used}).status_code == 302
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key of more than fifty characters, made for this test"
    for code in (account.codes[0], code_of(account.secret, 1)):
        assert account.browser_before_code().post(SECOND, {"code": code}).status_code == 200
    settings.SECRET_KEY_FALLBACKS = [old]
    for code, expected in ((used, 200), (account.codes[0], 302)):
        assert account.browser_before_code().post(SECOND, {"code": code}).status_code == expected


def test_mallory_does_not_touch_the_passkey_of_another_person(alice: User) -> None:
    mallory = browser_of(PersonFactory())
    passkey = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Telephone", "credential": {}})
    for action in ("", "/remove"):
        path = f"/accounts/security/passkeys/{passkey.pk}{action}"
        assert mallory.get(path).status_code == 404
        assert mallory.post(path, {"name": "Mine"}).status_code == 404
    assert Authenticator.objects.get().data["name"] == "Telephone"


@pytest.mark.parametrize(("late_by", "expected"), [(-60, 200), (-1, 302), (0, 302), (59, 302), (60, 200)])
def test_a_code_is_valid_in_and_beside_its_period(account: Account, late_by: int, expected: int) -> None:
    period = int(time.time()) // 30 * 30
    with time_machine.travel(period, tick=False):
        code = code_of(account.secret)
    with time_machine.travel(period + late_by, tick=False):
        browser = account.browser_before_code()
        assert browser.post(SECOND, {"code": code}).status_code == expected


def test_each_code_of_the_app_works_once_that_of_the_set_up_too(account: Account) -> None:
    period = int(time.time()) // 30 * 30
    with time_machine.travel(period, tick=False):
        account.browser.post("/accounts/confirm", {"password": PASSWORD})
        account.browser.post(f"{APP}/off")
        (secret,) = codes_on(account.browser.get(APP))
        code, new = code_of(secret), code_of(secret, 1)
        assert account.browser.post(APP, {"code": code}).status_code == 302
        assert account.browser_before_code().post(SECOND, {"code": new}).status_code == 302
    for seconds_later in (0, 59):
        with time_machine.travel(period + seconds_later, tick=False):
            caches["default"].clear()  # which isn't needed to remember it
            browser = account.browser_before_code()
            for spelling in (f"{code[:3]}.{code[3:]}", f"{new[:3]} {new[3:]}", new):
                answer = browser.post(SECOND, {"code": spelling})
                assert (answer.status_code, "was used before" in html_of(answer)) == (200, True)


@pytest.fixture
def administrator(alice: User, settings: Any) -> User:
    settings.STAFF_SECOND_FACTOR = True
    alice.is_staff = alice.is_superuser = True
    alice.save()
    return alice


def test_an_administrator_without_a_factor_adds_one_and_is_led_back_after_the_codes(administrator: User) -> None:
    browser = browser_of(administrator)
    answer = browser.get("/admin/accounts/user/", follow=True)
    assert answer.redirect_chain[-1][0] == "/accounts/security"
    assert "Administrators need a second factor" in html_of(answer)
    shown = browser.post(APP, {"code": code_of(codes_on(browser.get(APP))[0])}, follow=True)
    assert shown.redirect_chain[-1][0] == CODES
    assert 'class="button" href="/admin/accounts/user/"' in html_of(shown)


def test_an_administrator_enters_with_the_second_factor_and_not_after_its_removal(administrator: User) -> None:
    account = Account(administrator)
    asked = account.browser.get("/admin/")["Location"]
    asked = account.browser.get(asked)["Location"]
    assert asked.startswith("/accounts/confirm/code?"), "also for the factor that was just set up"
    for path, browser in ((asked, account.browser), (SECOND, account.browser_before_code(next="/admin/"))):
        assert browser.post(path, {"code": account.codes.pop()})["Location"] == "/admin/"
        assert browser.get("/admin/").status_code == 200
    Authenticator.objects.all().delete()
    assert browser.get("/admin/").status_code == 302


def test_an_app_that_is_set_up_in_two_tabs_at_once_is_stored_once(account: Account, monkeypatch: Any) -> None:
    monkeypatch.setattr("allauth.mfa.totp.views.is_mfa_enabled", lambda _person, _types: False)
    secret = codes_on(account.browser.get(APP))[0]
    assert account.browser.post(APP, {"code": code_of(secret)})["Location"] == "/accounts/security"
    assert Authenticator.objects.filter(type="totp").count() == 1
