"""Passkeys of a device that this module plays: what signs in, and answers that no browser makes."""

from __future__ import annotations

import copy
import json
from typing import Any
from unittest.mock import Mock

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.cache import cache
from django.test import Client

from accounts.factors import authenticators
from accounts.models import User
from tests.factories import PersonFactory
from tests.pages import (
    ADD,
    PASSKEY,
    SECOND,
    Account,
    Device,
    add,
    add_many,
    browser_of,
    creation,
    deliver_all,
    html_of,
    is_signed_in,
    request_options,
    sign_in,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

CONFIRM = "/accounts/confirm/passkey"
NONSENSE = [1, 10**10, 10**30, [], {}, True, "\ud800", "\x00", "é", "A" * 7000, "oaGhoaE", "gYGB" * 2000]


def added(browser: Client) -> Device:
    device = Device()
    assert add(browser, device.made(creation(browser))).status_code == 302
    return device


@pytest.fixture
def device(browser: Client) -> Device:
    return added(browser)


def changed(answer: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    answer = copy.deepcopy(answer)
    *outer, name = path.split(".")
    (answer[outer[0]] if outer else answer)[name] = value
    return answer


def test_a_passkey_signs_in_once_in_the_browser_that_asked_to_an_active_account(device: Device, alice: User) -> None:
    owner, thief = Client(), Client()
    answer = {"credential": json.dumps(device.signed(request_options(owner)))}
    assert request_options(thief)["userVerification"] == "required"
    for browser, is_accepted in ((thief, False), (owner, True), (owner, False)):
        browser.post(PASSKEY, answer)
        assert is_signed_in(browser) is is_accepted
        browser.post("/accounts/sign-out")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    owner.post(PASSKEY, {"credential": json.dumps(device.signed(request_options(owner)))})
    User.objects.filter(pk=alice.pk).update(is_active=True)
    assert not is_signed_in(owner)


@pytest.mark.parametrize(
    "path",
    ["id", "rawId", "response", *(f"response.{each}" for each in ("authenticatorData", "signature", "userHandle"))],
)
def test_a_malformed_answer_does_not_sign_in(client: Client, device: Device, path: str) -> None:
    """A number would make the library allocate so many bytes."""
    for value in NONSENSE:
        cache.clear()  # the limit of these requests
        answer = changed(device.signed(request_options(client)), path, value)
        assert client.post(PASSKEY, {"credential": json.dumps(answer)})["Location"] == "/accounts/sign-in", value
        assert not is_signed_in(client), value


NEEDED = ["id", "rawId", "response", "response.attestationObject"]


@pytest.mark.parametrize("path", [*NEEDED, "clientExtensionResults", "other", "response.transports"])
def test_a_malformed_passkey_is_not_added_and_what_one_does_not_need_is_not_stored(browser: Client, path: str) -> None:
    for value in NONSENSE:
        answer = add(browser, changed(Device().made(creation(browser)), path, value))
        assert answer.status_code == (200 if path in NEEDED else 302), value
    stored = [row.data["credential"] for row in Authenticator.objects.filter(type="webauthn")]
    assert len(stored) == (0 if path in NEEDED else len(NONSENSE))
    assert all(set(each) == {"id", "rawId", "type", "response", "host"} for each in stored)
    assert all(set(each["response"]) == {"clientDataJSON", "attestationObject"} for each in stored)


def test_a_person_has_at_most_twenty_passkeys_of_which_only_one_that_answers_is_parsed(
    browser: Client, device: Device, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RATES = {}
    selection = {"residentKey": "required", "requireResidentKey": True, "userVerification": "required"}
    assert creation(browser)["authenticatorSelection"] == selection
    passkey = Authenticator.objects.get(type="webauthn")
    for _ in range(19):
        passkey.pk = None
        passkey.save()
    full = "You have 20 passkeys, and there can be no more. Remove one that you no longer use first."
    answer = browser.get(ADD)
    assert full in html_of(answer)
    options_of_an_old_page = dict(answer.context["js_data"]["creation_options"]["publicKey"])
    assert full in html_of(add(browser, Device().made(options_of_an_old_page)))
    assert Authenticator.objects.filter(type="webauthn").count() == 20
    parse = Mock(wraps=authenticators.RegistrationResponse.from_dict)
    with monkeypatch.context() as patch:
        patch.setattr(authenticators.RegistrationResponse, "from_dict", parse)
        for path in ("/accounts/security", ADD, CONFIRM):
            assert browser.get(path).status_code == 200
        assert 'href="/accounts/confirm"' in html_of(browser.get(CONFIRM)), "the password is the other way"
        answer = device.signed(request_options(browser, CONFIRM))
        assert browser.post(CONFIRM, {"credential": json.dumps(answer)}).status_code == 302
    assert parse.call_count == 1
    browser.post(f"/accounts/security/passkeys/{passkey.pk}/remove")
    deliver_all()
    assert "A passkey was removed at Delegated Sign-In" in [each.subject for each in mail.outbox]
    assert add_many(browser, 1) == [302]


def test_the_passkey_of_another_person_is_not_the_second_factor(device: Device) -> None:
    other, browser = PersonFactory(), Client()
    sign_in(browser, other.email)
    add_many(browser, 1)
    fresh = browser_of(other)
    answer = device.signed(request_options(fresh, SECOND))
    assert "This passkey is not known here" in html_of(fresh.post(SECOND, {"credential": json.dumps(answer)}))
    assert not is_signed_in(fresh)


def second_page(person: User) -> str:
    return html_of(browser_of(person).get(SECOND)).partition("<main")[2]


def test_the_code_of_an_app_is_asked_for_first_and_before_recovery_codes_a_passkey(alice: User) -> None:
    account = Account(alice)
    assert "Code from your authenticator app, or a recovery code" in second_page(alice)
    added(account.browser)
    page = second_page(alice)
    assert page.index('name="code"') < page.index("Use a passkey")
    Authenticator.objects.filter(type="totp").delete()
    page = second_page(alice)
    assert page.index("Use a passkey") < page.index('name="code"')
    assert [text in page for text in ("Recovery code", "authenticator app")] == [True, False]
    Authenticator.objects.filter(type="recovery_codes").delete()  # as after a sign-up with a passkey
    page = second_page(alice)
    assert [text in page for text in ("data-passkey", 'name="code"')] == [True, False]
    assert "A passkey needs JavaScript, which is switched off in this browser." in page
