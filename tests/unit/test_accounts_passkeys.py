"""Passkeys of a device that this module plays: what signs in, and answers that no browser makes."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
import struct
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from fido2 import cbor
from fido2.cose import ES256

from accounts.models import User
from tests.factories import PASSWORD

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_counters")]

ADD = "/accounts/security/passkeys/add"
SIGN_IN = "/accounts/sign-in/passkey"
NONSENSE = [1, 10**10, 10**30, [], {}, True, "\ud800", "\x00", "é", "A" * 7000, "oaGhoaE", "gYGB" * 2000]


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Device:
    """Makes one passkey and signs with it. WebAuthn §6.1, §6.5."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = os.urandom(32)
        self.person = ""

    def made(self, options: dict[str, Any]) -> dict[str, Any]:
        self.person = options["user"]["id"]
        key = cbor.encode(dict(ES256.from_cryptography_key(self.key.public_key())))
        data = self._data(options["rp"]["id"], 0x45) + bytes(16) + struct.pack(">H", len(self.id)) + self.id + key
        statement = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        response = {"clientDataJSON": encoded(self._client("create", options)), "attestationObject": encoded(statement)}
        return self._answer(response)

    def signed(self, options: dict[str, Any]) -> dict[str, Any]:
        client, data = self._client("get", options), self._data(options["rpId"], 0x05)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        parts = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return self._answer({name: encoded(part) for name, part in parts.items()} | {"userHandle": self.person})

    def _answer(self, response: dict[str, str]) -> dict[str, Any]:
        common = {"type": "public-key", "clientExtensionResults": {"credProps": {"rk": True}}}
        return {"id": encoded(self.id), "rawId": encoded(self.id), "response": response} | common

    def _client(self, action: str, options: dict[str, Any]) -> bytes:
        facts = {"type": f"webauthn.{action}", "challenge": options["challenge"], "origin": settings.AUTH_URL}
        return json.dumps(facts).encode()

    def _data(self, host: str, flags: int) -> bytes:
        return hashlib.sha256(host.encode()).digest() + bytes([flags]) + struct.pack(">I", 0)


@pytest.fixture(autouse=True)
def over_http(monkeypatch: Any) -> None:
    """The library wants https, except for localhost; tests run at http://testserver."""
    monkeypatch.setattr("fido2.server.verify_rp_id", lambda _host, _origin: True)


@pytest.fixture
def browser(alice: User) -> Client:
    client = Client()
    client.post("/accounts/sign-in", {"login": alice.email, "password": PASSWORD})
    return client


@pytest.fixture
def device(browser: Client) -> Device:
    found = Device()
    assert add(browser, found.made(creation(browser))).status_code == 302
    return found


def creation(browser: Client) -> dict[str, Any]:
    page = browser.get(ADD).content.decode()
    found = re.search(r'<script[^>]*type="application/json">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1])["publicKey"])


def add(browser: Client, answer: dict[str, Any]) -> Any:
    return browser.post(ADD, {"name": "Telephone", "credential": json.dumps(answer)})


def request_options(browser: Client) -> dict[str, Any]:
    return dict(browser.get(SIGN_IN).json()["request_options"]["publicKey"])


def changed(answer: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    answer = copy.deepcopy(answer)
    *outer, name = path.split(".")
    (answer[outer[0]] if outer else answer)[name] = value
    return answer


def is_signed_in(browser: Client) -> bool:
    return bool(browser.get("/accounts/profile").status_code == 200)


def test_a_passkey_signs_in_once_in_the_browser_that_asked(device: Device) -> None:
    owner, thief = Client(), Client()
    answer = {"credential": json.dumps(device.signed(request_options(owner)))}
    request_options(thief)
    thief.post(SIGN_IN, answer)
    assert not is_signed_in(thief)
    owner.post(SIGN_IN, answer)
    assert is_signed_in(owner)
    owner.post("/accounts/sign-out")
    owner.post(SIGN_IN, answer)
    assert not is_signed_in(owner)


def test_a_passkey_of_a_deactivated_person_does_not_sign_in(device: Device, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    browser = Client()
    browser.post(SIGN_IN, {"credential": json.dumps(device.signed(request_options(browser)))})
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
        assert client.post(SIGN_IN, {"credential": json.dumps(answer)})["Location"] == "/accounts/sign-in", value
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
