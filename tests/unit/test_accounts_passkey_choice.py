"""The choice of a person who adds a passkey, and the page that asks for one of the second factors that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from accounts.models import User
from tests.factors import ADD, APP, PASSKEY, SECOND, Account, Device, add, code_of, creation, request_options
from tests.pages import browser_of, html_of, is_signed_in, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

SECURITY = "/accounts/security"
CHOICE = "Also ask for a passkey after my password"


def added(browser: Client, *, as_second_factor: bool) -> Device:
    device = Device()
    assert add(browser, device.made(creation(browser)), as_second_factor=as_second_factor).status_code == 302
    return device


def types() -> list[str]:
    return sorted(Authenticator.objects.values_list("type", flat=True))


def second_page(person: User) -> str:
    """The page after the password, without its head, line by line."""
    fresh = Client()
    assert sign_in(fresh, person.email)["Location"] == SECOND
    return html_of(fresh.get(SECOND)).partition("<main")[2]


def test_a_passkey_that_only_signs_in_leaves_the_password_alone_enough(browser: Client, alice: User) -> None:
    assert CHOICE in html_of(browser.get(ADD))
    device = added(browser, as_second_factor=False)
    assert types() == ["webauthn"], "there are no recovery codes without a second factor"
    page = html_of(browser.get(SECURITY))
    assert "Your password alone signs you in." in page
    assert "Make recovery codes" not in page
    fresh = Client()
    assert sign_in(fresh, alice.email)["Location"] == "/accounts/profile"
    another = Client()
    another.post(PASSKEY, {"credential": json.dumps(device.signed(request_options(another)))})
    assert is_signed_in(another)


def test_a_passkey_as_the_second_factor_is_asked_for_and_brings_recovery_codes(browser: Client, alice: User) -> None:
    added(browser, as_second_factor=True)
    assert types() == ["recovery_codes", "webauthn"]
    assert sign_in(Client(), alice.email)["Location"] == SECOND
    assert "Asked after your password." in html_of(browser.get(SECURITY))


def test_a_passkey_that_only_signs_in_confirms_before_a_change(browser: Client) -> None:
    added(browser, as_second_factor=False)
    page = html_of(browser.get("/accounts/confirm?next=/accounts/delete"))
    assert "/accounts/confirm/passkey" in page
    assert "/accounts/confirm/code" not in page


def test_it_lets_an_administrator_in_who_confirms_with_it(browser: Client, alice: User, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = True
    added(browser, as_second_factor=False)
    User.objects.update(is_staff=True, is_superuser=True)
    fresh = browser_of(alice)
    answer = fresh.get("/admin/", follow=True)
    assert answer.request["PATH_INFO"] == "/accounts/confirm/passkey"


def test_there_is_no_choice_where_a_second_factor_is_asked_for_already(alice: User) -> None:
    account = Account(alice)
    page = html_of(account.browser.get(ADD))
    assert CHOICE not in page
    assert "This passkey can be used as one, too." in page
    added(account.browser, as_second_factor=False)
    account.browser.post(f"{APP}/off")
    assert sign_in(Client(), alice.email)["Location"] == SECOND, "as the page had said"


def test_there_is_no_choice_without_a_password_and_the_page_says_so(browser: Client, alice: User) -> None:
    device = added(browser, as_second_factor=True)
    User.objects.filter(pk=alice.pk).update(password="!none")
    fresh = Client()
    fresh.post(PASSKEY, {"credential": json.dumps(device.signed(request_options(fresh)))})
    page = html_of(fresh.get(ADD))
    assert CHOICE not in page
    assert "If you set one, a passkey is asked for after it." in page


def test_recovery_codes_go_with_the_last_second_factor(alice: User) -> None:
    account = Account(alice)
    device = Device()
    add(account.browser, device.made(creation(account.browser)))
    row = Authenticator.objects.get(type="webauthn")
    row.data["only_signs_in"] = True
    row.save()
    account.browser.post(f"{APP}/off")
    assert types() == ["webauthn"]
    added(account.browser, as_second_factor=True)
    assert types() == ["recovery_codes", "webauthn", "webauthn"]
    newest = Authenticator.objects.filter(type="webauthn").latest("pk")
    account.browser.post(f"/accounts/security/passkeys/{newest.pk}/remove")
    assert types() == ["webauthn"]
    assert sign_in(Client(), alice.email)["Location"] == "/accounts/profile"


# The page of the second factor ----------------------------------------------------------------------------------------


def main_buttons(page: str) -> list[str]:
    return [
        text.strip() for text in re.findall(r'<button class="button(?: icon icon-passkey)?"[^>]*>(.*?)</button>', page)
    ]


def test_with_an_app_the_code_is_first(alice: User) -> None:
    Account(alice)
    page = second_page(alice)
    assert "Code from your authenticator app, or a recovery code" in page
    assert main_buttons(page) == ["Continue"]
    assert "data-passkey" not in page


def test_with_an_app_and_a_passkey_the_code_is_first_and_the_passkey_the_other_way(alice: User) -> None:
    added(Account(alice).browser, as_second_factor=True)
    page = second_page(alice)
    assert main_buttons(page) == ["Continue"]
    assert page.index('name="code"') < page.index("Use a passkey")


def test_with_passkeys_and_recovery_codes_the_passkey_is_first_and_no_app_is_spoken_of(
    browser: Client, alice: User
) -> None:
    added(browser, as_second_factor=True)
    page = second_page(alice)
    assert main_buttons(page) == ["Use a passkey"]
    assert page.index("Use a passkey") < page.index('name="code"')
    assert "Recovery code" in page
    assert "authenticator app" not in page
    fresh = browser_of(alice)
    answer = html_of(fresh.post(SECOND, {"code": "000000"}))
    assert "This is no recovery code of yours that is still unused." in answer


def test_with_passkeys_alone_no_code_is_asked_for(browser: Client, alice: User) -> None:
    added(browser, as_second_factor=True)
    Authenticator.objects.filter(type="recovery_codes").delete()
    page = second_page(alice)
    assert 'name="code"' not in page
    assert "A passkey needs JavaScript, which is switched off in this browser." in page


def test_with_an_app_whose_recovery_codes_are_gone_only_the_app_is_spoken_of(alice: User) -> None:
    account = Account(alice)
    Authenticator.objects.filter(type="recovery_codes").delete()
    page = second_page(alice)
    assert "Code from your authenticator app" in page
    assert "recovery code" not in page
    fresh = browser_of(alice)
    assert fresh.post(SECOND, {"code": code_of(account.secret)}).status_code == 302


def test_what_is_wrong_with_a_passkey_is_said(browser: Client, alice: User) -> None:
    added(browser, as_second_factor=True)
    fresh = browser_of(alice)
    answer = Device()
    answer.person = "AA"
    options = request_options(fresh, f"{SECOND}/passkey")
    page = html_of(fresh.post(SECOND, {"credential": json.dumps(answer.signed(options))}))
    assert "This passkey is not known here" in page
    assert "<title>Error:" in page


def test_a_person_who_has_passkeys_alone_is_asked_for_one(browser: Client, alice: User) -> None:
    """As after a sign-up with a passkey, when a password was set later."""
    added(browser, as_second_factor=True)
    Authenticator.objects.filter(type="recovery_codes").delete()
    page = second_page(alice)
    assert "data-passkey" in page
    assert 'name="code"' not in page
