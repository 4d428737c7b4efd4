"""Attacks from one machine: by strangers, and by people with accounts that have the most of what a person may have.

What a single request may cost: `make fuzz`. Clients that are slow: tests/faults/test_nginx.py.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle, repeat
from typing import Any
from urllib.parse import urlencode

from allauth.mfa.models import Authenticator
from urllib3 import encode_multipart_formdata
from urllib3.exceptions import HTTPError

from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory, picture
from tests.faults.load import FORM, Caller
from tests.grants import example_paths
from tests.pages import Device, with_session

Request = tuple[str, str, str | bytes | None, dict[str, str]]  # method, path, body, headers


@dataclass(frozen=True)
class Holders:
    """Accounts that the attacker owns, with the most passkeys and the most sessions that a person may have.

    Also addresses of other people, and a file that costs much to read.
    """

    passkeys: Any
    sessions: Any
    uploaders: list[Any]
    addresses: list[str]
    picture: bytes = field(repr=False)

    @classmethod
    def create(cls) -> Holders:
        passkeys, sessions, *uploaders = PersonFactory.create_batch(4)
        request = {"user": {"id": "bWFsbG9yeQ"}, "rp": {"id": "localhost"}, "challenge": "bWFsbG9yeQ"}
        for number in range(20):
            data = {"name": f"Key {number}", "credential": Device("http://localhost").made(request)}
            Authenticator.objects.create(user=passkeys, type="webauthn", data=data)
        for _ in range(100):
            with_session(sessions)
        addresses = [person.email for person in PersonFactory.create_batch(32)]
        return cls(passkeys, sessions, uploaders, addresses, picture("JPEG", (7000, 7000)))


@dataclass(frozen=True)
class Site:
    """The target of the attack, the public client_id that it sends, and the accounts that the attacker owns.

    `address` is the attacker's network address. Limits that one attack has reached must not stop the next one. `counts`
    has the number of requests that the attacker's process has sent so far, and after it that of the answers by status.
    """

    base_url: str
    address: str
    public_client_id: str
    holders: Holders
    counts: Any = field(default_factory=lambda: multiprocessing.get_context("fork").Array("Q", 600))

    def count(self, status: int = 0) -> None:
        with self.counts.get_lock():
            self.counts[status] += 1

    @property
    def answers(self) -> dict[int, int]:
        return {status: count for status, count in enumerate(self.counts) if status and count}

    def token(self, path: str, person: Any = None) -> tuple[dict[str, str], dict[str, str]]:
        """The field with the CSRF token of the page, and the headers of a post, in a browser of the person if given."""
        driver = OAuthDriver(self.base_url)
        if person:
            driver.signed_in(person.email, PASSWORD)
        forms = [form.fields for form in Page(driver.open(path)).forms if "csrfmiddlewaretoken" in form.fields]
        return {"csrfmiddlewaretoken": forms[0]["csrfmiddlewaretoken"]}, FORM | cookies_of(driver)


def cookies_of(driver: OAuthDriver) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{each.name}={each.value}" for each in driver.browser.cookies)}


def attack(name: str, site: Site, until: float) -> None:
    """Send the requests of the attack on new connections, as many at a time as ATTACKS says."""
    connections, requests_of = ATTACKS[name]
    requests, lock = iter(requests_of(site)), threading.Lock()
    caller = Caller(site, keeps=False, address=site.address)

    def send(_number: int) -> None:
        while time.monotonic() < until:
            with lock:  # only one thread at a time may use a generator
                request = next(requests)
            with suppress(HTTPError):
                site.count()
                site.count(caller.call(*request).status)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, range(connections)))  # raises what a thread raised


def sign_ins(site: Site) -> Iterator[Request]:
    token, headers = site.token("/accounts/sign-in")
    for number in count():
        form = token | {"login": f"{os.getpid()}-{number}@example.net", "password": "a wrong password"}
        yield "POST", "/accounts/sign-in", urlencode(form), headers


def exchanges(site: Site) -> Iterator[Request]:
    for number in count():
        client_id = site.public_client_id if number % 2 else f"invented-{number}"
        form = {"grant_type": "authorization_code", "code": f"x{number}", "code_verifier": "v" * 43}
        yield "POST", "/oauth/token", urlencode(form | {"client_id": client_id}), FORM


def resets(site: Site) -> Iterator[Request]:
    token, headers = site.token("/accounts/password/reset")
    for number in count():
        known = site.holders.addresses[number % len(site.holders.addresses)]
        form = token | {"email": known if number % 2 else f"x-{number}@a.example"}
        yield "POST", "/accounts/password/reset", urlencode(form), headers


def posts_without_a_token(_site: Site) -> Iterable[Request]:
    """Posts to every path, without a token and without a cookie."""
    fields = "login=a%40a.example&email=a%40a.example&password=x&language=de&next=%2Faccounts%2Fprofile"
    return cycle([("POST", path, fields, FORM) for path in sorted(example_paths())])


def second_factor_pages(site: Site) -> Iterable[Request]:
    driver = OAuthDriver(site.base_url)
    page = driver.sign_in(driver.open("/accounts/sign-in"), site.holders.passkeys.email, PASSWORD)
    return repeat(("GET", page.url.removeprefix(site.base_url), None, cookies_of(driver)))


def browsers_and_exports(site: Site) -> Iterable[Request]:
    token, headers = site.token("/accounts/export", site.holders.sessions)
    export: Request = ("POST", "/accounts/export", urlencode(token), headers)
    return cycle([("GET", "/accounts/browsers", None, headers), export])


def pictures(site: Site) -> Iterable[Request]:
    requests: list[Request] = []
    for person in site.holders.uploaders:
        token, headers = site.token("/accounts/profile", person)
        fields: Any = token | {"nickname": "Alice", "picture": ("picture", site.holders.picture)}
        body, content_type = encode_multipart_formdata(fields)
        requests.append(("POST", "/accounts/profile", body, headers | {"Content-Type": content_type}))
    return cycle(requests)


ATTACKS: dict[str, tuple[int, Callable[[Site], Iterable[Request]]]] = {
    "sign-ins for addresses nobody has, 16 connections": (16, sign_ins),
    "exchanges for public and invented clients, 16 connections": (16, exchanges),
    "bad tokens, 16 connections": (
        16,
        lambda _site: repeat(("GET", "/oauth/userinfo", None, {"Authorization": "Bearer x"})),
    ),
    "sign-in pages, 16 connections": (16, lambda _site: repeat(("GET", "/accounts/sign-in", None, {}))),
    "posts without a token, 16 connections": (16, posts_without_a_token),
    "reset mails while the mail server is slow, 6 connections": (6, resets),
    "second-factor pages with 20 passkeys, 10 connections": (10, second_factor_pages),
    "browsers and exports of 100 sessions, 10 connections": (10, browsers_and_exports),
    "pictures of 49 megapixels, two accounts, 4 connections": (4, pictures),
}
