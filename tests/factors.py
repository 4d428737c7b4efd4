"""Second factors in tests: an authenticator app, and a device with passkeys that this module plays."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import struct
import time
from typing import Any

import time_machine
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.test import Client
from fido2 import cbor
from fido2.cose import ES256

from accounts.models import User
from tests.pages import browser_of, html_of, sign_in

APP = "/accounts/security/authenticator"
CODES = "/accounts/security/recovery-codes"
ADD = "/accounts/security/passkeys/add"
PASSKEY = "/accounts/sign-in/passkey"
SECOND = "/accounts/sign-in/code"


# An app ---------------------------------------------------------------------------------------------------------------


def code_of(secret: str, steps: int = 0) -> str:
    """The code of an authenticator app now, or so many steps of 30 seconds later. RFC 6238."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    mac = hmac.digest(base64.b32decode(secret), counter, hashlib.sha1)
    number = struct.unpack(">I", mac[mac[-1] & 15 :][:4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


def codes_on(page: Any) -> list[str]:
    """The secret of an app, or the recovery codes, as the page shows them."""
    return re.findall(r'<code dir="ltr">(\w+)</code>', html_of(page))


class Account:
    """A person with an authenticator app, and the browser in which it was set up."""

    def __init__(self, person: User) -> None:
        self.person, self.browser = person, browser_of(person)
        (self.secret,) = codes_on(self.browser.get(APP))
        # That of now is not used up: the one before it is valid until the period ends.
        # Rounded down, the time would be before the sign-in.
        with time_machine.travel(time.time() + 0.001, tick=False):
            self.answer = self.browser.post(APP, {"code": code_of(self.secret, -1)})
        assert self.answer.status_code == 302, html_of(self.answer)
        self.codes = codes_on(self.browser.get(self.answer["Location"]))

    def browser_before_code(self, browser: Client | None = None, **options: str) -> Client:
        """A new browser, or the one given, in which the person was just asked for the second factor."""
        browser = browser or Client()
        assert sign_in(browser, self.person.email, **options)["Location"].partition("?")[0] == SECOND
        return browser


# Passkeys -------------------------------------------------------------------------------------------------------------


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Device:
    """Makes one passkey and signs with it. WebAuthn §6.1, §6.5."""

    def __init__(self, origin: str = "") -> None:
        self.origin = origin or settings.AUTH_URL
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
        facts = {"type": f"webauthn.{action}", "challenge": options["challenge"], "origin": self.origin}
        return json.dumps(facts).encode()

    def _data(self, host: str, flags: int) -> bytes:
        return hashlib.sha256(host.encode()).digest() + bytes([flags]) + struct.pack(">I", 0)


def creation(browser: Client) -> dict[str, Any]:
    page = browser.get(ADD).content.decode()
    found = re.search(r'<script[^>]*type="application/json">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1])["publicKey"])


def add(browser: Client, answer: dict[str, Any], *, as_second_factor: bool = True) -> Any:
    choice = {"second_factor": "on"} if as_second_factor else {}
    return browser.post(ADD, {"name": "Telephone", "credential": json.dumps(answer), **choice})


def add_many(browser: Client, number: int) -> list[int]:
    return [add(browser, Device().made(creation(browser))).status_code for _ in range(number)]


def request_options(browser: Client, page: str = PASSKEY) -> dict[str, Any]:
    return dict(browser.get(page).json()["request_options"]["publicKey"])
