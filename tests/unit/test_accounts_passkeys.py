"""Passkeys of a device that this module plays: what signs in, and answers that no browser makes."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.cache import cache
from django.test import Client

from accounts.models import User
from tests.factories import PASSWORD, PersonFactory
from tests.factors import ADD, PASSKEY, SECOND, Device, add, add_many, creation, request_options
from tests.pages import browser_of, deliver_all, is_signed_in, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

NONSENSE = [1, 10**10, 10**30, [], {}, True, "\ud800", "\x00", "é", "A" * 7000, "oaGhoaE", "gYGB" * 2000]


@pytest.fixture
def device(browser: Client) -> Device:
    found = Device()
    assert add(browser, found.made(creation(browser))).status_code == 302
    return found


def changed(answer: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    answer = copy.deepcopy(answer)
    *outer, name = path.split(".")
    (answer[outer[0]] if outer else answer)[name] = value
    return answer


def test_a_passkey_signs_in_once_in_the_browser_that_asked(device: Device) -> None:
    owner, thief = Client(), Client()
    answer = {"credential": json.dumps(device.signed(request_options(owner)))}
    request_options(thief)
    thief.post(PASSKEY, answer)
    assert not is_signed_in(thief)
    owner.post(PASSKEY, answer)
    assert is_signed_in(owner)
    owner.post("/accounts/sign-out")
    owner.post(PASSKEY, answer)
    assert not is_signed_in(owner)


def test_a_passkey_of_a_deactivated_person_does_not_sign_in(device: Device, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    browser = Client()
    browser.post(PASSKEY, {"credential": json.dumps(device.signed(request_options(browser)))})
    alice.is_active = True
    alice.save()
    assert not is_signed_in(browser)


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


@pytest.mark.parametrize("path", ["id", "rawId", "response", "response.attestationObject"])
def test_a_malformed_passkey_is_not_added(browser: Client, path: str) -> None:
    for value in NONSENSE:
        answer = changed(Device().made(creation(browser)), path, value)
        assert add(browser, answer).status_code == 200, value
        assert not Authenticator.objects.exists(), value


@pytest.mark.parametrize("path", ["clientExtensionResults", "other", "response.transports"])
def test_what_a_passkey_does_not_need_is_not_stored(browser: Client, path: str) -> None:
    for value in NONSENSE:
        assert add(browser, changed(Device().made(creation(browser)), path, value)).status_code == 302, value
        stored = Authenticator.objects.filter(type="webauthn").latest("pk").data["credential"]
        assert set(stored) == {"id", "rawId", "type", "response"}
        assert set(stored["response"]) == {"clientDataJSON", "attestationObject"}


def test_what_is_wrong_with_a_hidden_field_is_said(browser: Client) -> None:
    page = browser.post(ADD, {"name": "Telephone"}).content.decode()
    assert "<li>Your browser sent no passkey. Try again, or use your password.</li>" in page


# How many -------------------------------------------------------------------------------------------------------------


def passkeys() -> int:
    return Authenticator.objects.filter(type="webauthn").count()


def test_a_person_has_at_most_twenty_passkeys(browser: Client, settings: Any) -> None:
    settings.RATES = {}
    assert set(add_many(browser, 20)) == {302}
    full = "You have 20 passkeys, and there can be no more. Remove one that you no longer use first."
    answer = browser.get(ADD).content.decode()
    assert full in answer
    assert "<form" not in answer.partition(full)[2].partition("</section>")[0]
    creation_of_an_old_page = browser.get(ADD).context["js_data"]["creation_options"]["publicKey"]
    assert full in add(browser, Device().made(dict(creation_of_an_old_page))).content.decode()
    assert passkeys() == 20


def test_with_one_removed_another_can_be_added(browser: Client, settings: Any) -> None:
    settings.RATES = {}
    add_many(browser, 20)
    browser.post(f"/accounts/security/passkeys/{Authenticator.objects.filter(type='webauthn')[0].pk}/remove")
    assert add_many(browser, 1) == [302]


def test_passkeys_that_are_added_within_ten_minutes_cause_one_mail(browser: Client) -> None:
    beginning = int(time.time()) // 600 * 600
    for later, expected in ((0, 1), (590, 1), (601, 2)):
        with time_machine.travel(beginning + 600 + later, tick=False):
            browser.post("/accounts/confirm", {"password": PASSWORD})
            assert add_many(browser, 2) == [302] * 2
            deliver_all()
        letters = [each for each in mail.outbox if each.subject.startswith("A passkey was added")]
        assert len(letters) == expected


def test_the_page_of_the_second_factor_parses_no_passkey(device: Device, alice: User, monkeypatch: Any) -> None:
    """With the most of them that took 20 to 40 ms."""
    browser = browser_of(alice)
    monkeypatch.delattr("allauth.mfa.webauthn.internal.auth.WebAuthn.authenticator_data")
    assert "Use a passkey" in browser.get(SECOND).content.decode()


def test_a_passkey_is_the_second_factor(device: Device, alice: User) -> None:
    browser = browser_of(alice)
    answer = device.signed(request_options(browser, f"{SECOND}/passkey"))
    assert browser.post(SECOND, {"credential": json.dumps(answer)})["Location"] == "/accounts/profile"
    assert is_signed_in(browser)


def test_the_passkey_of_another_person_is_not_the_second_factor(device: Device) -> None:
    other, browser = PersonFactory(), Client()
    sign_in(browser, other.email)
    add_many(browser, 1)
    fresh = browser_of(other)
    answer = device.signed(request_options(fresh, f"{SECOND}/passkey"))
    assert fresh.post(SECOND, {"credential": json.dumps(answer)}).status_code == 200
    assert not is_signed_in(fresh)
