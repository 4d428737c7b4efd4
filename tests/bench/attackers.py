"""Attacks from one machine: by strangers, and by people with accounts that have the most of what a person may have.

What a single request may cost is measured by `make fuzz`.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
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


# Requests on new connections, so many at a time -----------------------------------------------------------------------

Attack = Callable[[Site, float], None]


def asking(connections: int, requests_of: Callable[[Site], Iterable[Request]]) -> Attack:
    def attack(site: Site, until: float) -> None:
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

    return attack


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


# Connections that are kept open ---------------------------------------------------------------------------------------


def holding(number: int, beginning: bytes, trickle: bytes = b"") -> Attack:
    """So many connections. Each sends the beginning of a request to HOST, then a few bytes each half second."""

    def attack(site: Site, until: float) -> None:
        held: list[socket.socket] = []
        host = site.base_url.rpartition("/")[2].encode()

        def connect() -> None:
            connection = socket.create_connection(("127.0.0.1", int(host.rpartition(b":")[2])), 10, (site.address, 0))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.setblocking(False)
            connection.send(beginning.replace(b"HOST", host))
            site.count()
            held.append(connection)

        while time.monotonic() < until:
            with suppress(OSError):
                while len(held) < number and time.monotonic() < until:
                    connect()
            time.sleep(0.5)
            for connection in list(held):
                try:
                    connection.send(trickle)
                except BlockingIOError:
                    continue
                except OSError:
                    connection.close()
                    held.remove(connection)

    return attack


ATTACKS: dict[str, Attack] = {
    "sign-ins for addresses nobody has, 16 connections": asking(16, sign_ins),
    "exchanges for public and invented clients, 16 connections": asking(16, exchanges),
    "bad tokens, 16 connections": asking(
        16, lambda _site: repeat(("GET", "/oauth/userinfo", None, {"Authorization": "Bearer x"}))
    ),
    "sign-in pages, 16 connections": asking(16, lambda _site: repeat(("GET", "/accounts/sign-in", None, {}))),
    "posts without a token, 16 connections": asking(16, posts_without_a_token),
    "reset mails while the mail server is slow, 6 connections": asking(6, resets),
    "answers that are not read, 40 connections": holding(
        40, b"GET /static/css/site.css HTTP/1.1\r\nHost: HOST\r\n\r\n" * 20
    ),
    "headers that trickle, 40 connections": holding(40, b"GET /accounts/sign-in HTTP/1.1\r\n", b"X-Slow: 1\r\n"),
    "bodies that trickle, 40 connections": holding(
        40, b"POST /accounts/sign-in HTTP/1.1\r\nHost: HOST\r\nContent-Length: 10000\r\n\r\n", b"x"
    ),
    "2,000 idle connections": holding(2000, b"GET /oauth/userinfo HTTP/1.1\r\nHost: HOST\r\n\r\n"),
    "second-factor pages with 20 passkeys, 10 connections": asking(10, second_factor_pages),
    "browsers and exports of 100 sessions, 10 connections": asking(10, browsers_and_exports),
    "pictures of 49 megapixels, two accounts, 4 connections": asking(4, pictures),
}
