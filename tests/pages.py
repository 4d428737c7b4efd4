"""What a person does with Django's test client: pages, forms, e-mails, second factors."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import struct
import time
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import time_machine
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.contrib.auth.models import Permission
from django.core import mail
from django.test import Client, RequestFactory
from django.test.client import MULTIPART_CONTENT
from django.urls import reverse
from django.utils.http import urlencode
from fido2 import cbor
from fido2.cose import ES256

from accounts.mail import outbox
from accounts.models import User
from oauth_bridge.models import Application
from tests.factories import PASSWORD, PersonFactory

LOOPBACK = "127.0.0.1"
NEW_PASSWORD = "another battery staple"
AUTHORIZE = "/oauth/authorize?client_id=photo&state=a%20b"  # where a sign-in may lead back to
SIGN_UP = "/accounts/sign-up"
CODE_PAGE = "/accounts/confirm-email"
NEW = {"email": "New@Example.org", "nickname": "Nia", "password1": "a long enough phrase"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def sign_in(
    browser: Client, email: str, password: str = PASSWORD, *, query: str = "", address: str = LOOPBACK, **fields: str
) -> Any:
    form = {"login": email, "password": password, **fields}
    return browser.post(f"/accounts/sign-in{query}", form, REMOTE_ADDR=address)


def browser_of(person: User, agent: str = FIREFOX) -> Client:
    """A new browser in which the person has just typed the password, and nothing else was asked for."""
    browser = Client(headers={"user-agent": agent})
    assert sign_in(browser, person.email).status_code == 302
    return browser


def with_session(person: User, **options: Any) -> Client:
    """A new browser with a session of the person, who has not typed the password there."""
    browser = Client(**options)
    browser.force_login(person)
    return browser


def proven(browser: Client) -> Client:
    """The browser, in which the person has just typed the password again."""
    session = browser.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
    return browser


def admin_browser() -> Client:
    return proven(with_session(PersonFactory(is_staff=True, is_superuser=True)))


def staff(*codenames: str) -> Client:
    """The browser of a new administrator with these permissions and no others, who has just typed the password."""
    person = PersonFactory(is_staff=True, nickname="Mallory")
    permissions = Permission.objects.filter(codename__in=codenames)
    assert len(permissions) == len(codenames)
    person.user_permissions.set(permissions)
    return proven(with_session(person))


def known_browser(person: User) -> Client:
    browser = browser_of(person)
    browser.post("/accounts/sign-out")
    return browser


def sign_up(browser: Client, path: str = SIGN_UP, *, address: str = LOOPBACK, **changes: str) -> Any:
    return browser.post(path, NEW | changes, REMOTE_ADDR=address)


def is_signed_in(browser: Client) -> bool:
    return bool(browser.get("/accounts/profile").status_code == 200)


def html_of(answer: Any) -> str:
    return str(answer.content.decode())


def text_of(page: Any) -> str:
    """The words of a page, or of its HTML, with single spaces between them and without the tags."""
    html = page if isinstance(page, str) else html_of(page)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def secret_on(page: Any) -> str | None:
    found = re.search(r">\s*([A-Za-z0-9_-]{43})\s*<", html_of(page))
    return found[1] if found else None


def admin_page(row: Application, name: str = "", *more: Any) -> str:
    """The path of a page about the application: its own, or that of a name such as `act`."""
    prefix = "oauth_bridge_application_" if name in ("change", "delete", "history") else "application_"
    return reverse(f"admin:{prefix}{name}" if name else "admin:application", args=[row.pk, *more])


def deliver_all() -> int:
    return sum(1 for _ in iter(outbox.deliver_next, False))


def mailed_code(number: int = -1) -> str:
    """The code on a line of its own in an e-mail, by default the newest."""
    found = re.search(r"^ {4}([A-Z0-9]+(?:-[A-Z0-9]+)*)$", str(mail.outbox[number].body), re.MULTILINE)
    assert found, mail.outbox[number].body
    return found[1]


def type_code(browser: Client, code: str) -> Any:
    return browser.post(CODE_PAGE, {"code": code})


def mailed_path() -> str:
    found = re.search(r"https?://\S+/accounts/password/reset/\S+-\S+", str(mail.outbox[-1].body))
    assert found, mail.outbox[-1].body
    return urlsplit(found[0]).path


def ask_for_link(browser: Client, email: str, *, address: str = LOOPBACK, **fields: str) -> Any:
    return browser.post("/accounts/password/reset", {"email": email, **fields}, REMOTE_ADDR=address)


def choose(browser: Client, path: str, password: str = NEW_PASSWORD, *, address: str = LOOPBACK) -> Any:
    """The answer to the form for a new password at `path`. A page without a form gets the same post."""
    page = browser.get(path, follow=True)
    form = {"password1": password, "password2": password}
    return browser.post(page.context["action_url"] if page.context else path, form, REMOTE_ADDR=address)


post_multipart = RequestFactory.post


def post(
    client: RequestFactory, path: str, data: Any = None, content_type: str = MULTIPART_CONTENT, **more: Any
) -> Any:
    """In place of `RequestFactory.post`, which sends multipart also without a file."""
    if content_type == MULTIPART_CONTENT and not any(hasattr(value, "read") for value in (data or {}).values()):
        data, content_type = urlencode(data or {}, doseq=True), "application/x-www-form-urlencoded"
    return post_multipart(client, path, data, content_type, **more)


APP = "/accounts/security/authenticator"
CODES = "/accounts/security/recovery-codes"
ADD = "/accounts/security/passkeys/add"
PASSKEY = "/accounts/sign-in/passkey"
SECOND = "/accounts/sign-in/code"


def code_of(secret: str, steps: int = 0) -> str:
    """The code of an authenticator app, `steps` periods of 30 seconds from now. RFC 6238."""
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
        """A browser, by default a new one, that shows the page for the second factor."""
        browser = browser or Client()
        assert sign_in(browser, self.person.email, **options)["Location"].partition("?")[0] == SECOND
        return browser


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Device:
    """A device that makes one passkey and signs with it. WebAuthn §6.1, §6.5."""

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


def creation(browser: Client, path: str = ADD) -> dict[str, Any]:
    [options] = re.findall(r'<script[^>]*type="application/json">(.*?)</script>', html_of(browser.get(path)))
    return dict(json.loads(options)["publicKey"])


def add(browser: Client, answer: dict[str, Any]) -> Any:
    return browser.post(ADD, {"name": "Telephone", "credential": json.dumps(answer)})


def add_many(browser: Client, number: int) -> list[int]:
    return [add(browser, Device().made(creation(browser))).status_code for _ in range(number)]


def request_options(browser: Client, page: str = PASSKEY) -> dict[str, Any]:
    answer = browser.get(page)
    if page == PASSKEY:
        return dict(answer.json()["request_options"]["publicKey"])
    return dict(answer.context["js_data"]["request_options"]["publicKey"])
