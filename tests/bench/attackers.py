"""Attacks from one machine: by strangers, and by people with accounts that have the most of what a person may have.

What a single request may cost is measured by `make fuzz`.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import requests
from allauth.mfa.models import Authenticator

from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory, picture
from tests.grants import example_paths
from tests.pages import Device, with_session

FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ")
# The most that one person may have.
PASSKEYS, SESSIONS = 20, 100
PICTURE_SIZE = (7000, 7000)


class Tally:
    """How many requests the attacker's process has sent so far, and how many were answered with each status."""

    def __init__(self) -> None:
        self._counts = multiprocessing.get_context("fork").Array("Q", 600)

    def count(self, status: int = 0) -> None:
        with self._counts.get_lock():
            self._counts[status] += 1

    @property
    def sent(self) -> int:
        return int(self._counts[0])

    @property
    def answers(self) -> Counter[int]:
        return Counter({status: count for status, count in enumerate(self._counts) if status and count})


@dataclass(frozen=True)
class Holders:
    """Accounts that the attacker owns, addresses of other people, and a file that costs much to read."""

    passkeys: Any
    sessions: Any
    uploaders: tuple[Any, Any]
    addresses: list[str]
    picture: bytes = field(repr=False)

    @classmethod
    def create(cls) -> Holders:
        passkeys, sessions, first, second = PersonFactory.create_batch(4)
        for number in range(PASSKEYS):
            request = {"user": {"id": "bWFsbG9yeQ"}, "rp": {"id": "localhost"}, "challenge": "bWFsbG9yeQ"}
            data = {"name": f"Key {number}", "credential": Device("http://localhost").made(request)}
            Authenticator.objects.create(user=passkeys, type="webauthn", data=data)
        for _ in range(SESSIONS):
            with_session(sessions)
        addresses = [person.email for person in PersonFactory.create_batch(32)]
        return cls(passkeys, sessions, (first, second), addresses, picture("JPEG", PICTURE_SIZE))


@dataclass(frozen=True)
class Site:
    """The target of the attack, the public client_id that it sends, and the accounts that the attacker owns.

    `address` is the attacker's network address. Limits that one attack has reached must not stop the next one.
    """

    base_url: str
    address: str
    public_client_id: str
    holders: Holders
    tally: Tally = field(default_factory=Tally)

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def connect(self, *, window: int | None = None) -> socket.socket:
        connection = socket.socket()
        if window is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.settimeout(10)
        connection.bind((self.address, 0))
        connection.connect(("127.0.0.1", self.port))
        return connection

    def ask(self, data: bytes) -> bytes:
        """The complete response; empty when there was none. The request counts as sent once its last byte is."""
        received = b""
        with contextlib.suppress(OSError), self.connect() as connection:
            try:
                connection.sendall(data)
                self.tally.count()
            except OSError:  # closed before the request was complete: there may be an answer
                pass
            while part := connection.recv(65536):
                received += part
        if found := STATUS.match(received):
            self.tally.count(int(found[1]))
        return received

    def driver(self, person: Any = None) -> OAuthDriver:
        """A browser, in which the person has typed the password."""
        driver = OAuthDriver(self.base_url)
        return driver.signed_in(person.email, PASSWORD) if person else driver

    def form(self, driver: OAuthDriver, path: str) -> tuple[str, bytes]:
        """The CSRF token of the page's form, and the header with the cookies for its post."""
        forms = [form.fields for form in Page(driver.open(path)).forms if "csrfmiddlewaretoken" in form.fields]
        return forms[0]["csrfmiddlewaretoken"], cookies_of(driver)

    def request(self, line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        host = b"Host: localhost:%d\r\nConnection: close\r\n" % self.port
        return line + b" HTTP/1.1\r\n" + host + headers + length + b"\r\n" + body


def cookies_of(driver: OAuthDriver) -> bytes:
    return b"Cookie: " + "; ".join(f"{each.name}={each.value}" for each in driver.browser.cookies).encode() + b"\r\n"


Attack = Callable[[Site, float], None]


def flood(site: Site, until: float, requests: Iterable[bytes], connections: int) -> None:
    """Send requests on new connections, so many at a time."""
    rest, lock = iter(requests), threading.Lock()

    def send(_number: int) -> None:
        while time.monotonic() < until:
            with lock:  # only one thread at a time may use a generator
                request = next(rest)
            site.ask(request)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, range(connections)))  # raises what a thread raised


def repeated(connections: int, *requests: tuple[bytes, ...]) -> Attack:
    """Sends these requests, each of a line, headers and a body, in turn."""

    def attack(site: Site, until: float) -> None:
        flood(site, until, itertools.cycle([site.request(*each) for each in requests]), connections)

    return attack


def posts(site: Site, until: float, path: str, connections: int, fields: Callable[[int], dict[str, str]]) -> None:
    """Forms of the page at the path, each with other fields. The operations need no token and no cookie."""
    is_page = not path.startswith("/oauth/")
    token, cookies = site.form(site.driver(), path) if is_page else ("", b"")

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            body = urlencode({"csrfmiddlewaretoken": token, **fields(number)}).encode()
            yield site.request(f"POST {path}".encode(), FORM + cookies, body)

    flood(site, until, requests(), connections)


def sign_ins(site: Site, until: float) -> None:
    """Sign-ins for unknown e-mail addresses, a new one each time."""
    login = f"{os.getpid()}-%d@example.net"
    posts(
        site, until, "/accounts/sign-in", 16, lambda number: {"login": login % number, "password": "a wrong password"}
    )


def exchanges(site: Site, until: float) -> None:
    """Exchanges of unknown codes, with a public client_id and with unknown ones."""

    def fields(number: int) -> dict[str, str]:
        client_id = site.public_client_id if number % 2 else f"invented-{number}"
        code = {"grant_type": "authorization_code", "code": f"x{number}", "code_verifier": "v" * 43}
        return {**code, "client_id": client_id}

    posts(site, until, "/oauth/token", 16, fields)


def resets(site: Site, until: float) -> None:
    """Requests for reset mails, for people and for addresses nobody has."""

    def fields(number: int) -> dict[str, str]:
        known = site.holders.addresses[number % len(site.holders.addresses)]
        return {"email": known if number % 2 else f"x-{number}@a.example"}

    posts(site, until, "/accounts/password/reset", 6, fields)


# Without a CSRF token and without a cookie.
FIELDS = b"login=a%40a.example&email=a%40a.example&password=x&language=de&next=%2Faccounts%2Fprofile"


def unread_answers(site: Site, until: float) -> None:
    _hold(site, until, 40, site.request(b"GET /static/css/site.css").replace(b"Connection: close\r\n", b"") * 20)


def trickled_headers(site: Site, until: float) -> None:
    _hold(site, until, 40, b"GET /accounts/sign-in HTTP/1.1\r\n", trickle=b"X-Slow: 1\r\n")


def trickled_bodies(site: Site, until: float) -> None:
    head = site.request(b"POST /accounts/sign-in", FORM + b"Content-Length: 10000\r\n")
    _hold(site, until, 40, head, trickle=b"x")


def kept_connections(site: Site, until: float) -> None:
    _hold(site, until, 2000, site.request(b"GET /oauth/userinfo").replace(b"Connection: close\r\n", b""))


def _hold(site: Site, until: float, count: int, beginning: bytes, *, trickle: bytes = b"") -> None:
    """Keep so many connections open. Each sends the beginning of a request, then a few bytes each half second."""
    held: list[socket.socket] = []
    while time.monotonic() < until:
        while len(held) < count and time.monotonic() < until:
            try:
                connection = site.connect(window=1024)
                connection.setblocking(False)
                connection.send(beginning)
                site.tally.count()
            except OSError:
                break
            held.append(connection)
        time.sleep(0.5)
        for connection in list(held):
            try:
                if trickle:
                    connection.send(trickle)
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                held.remove(connection)
    for connection in held:
        connection.close()


def second_factor_pages(site: Site, until: float) -> None:
    """The page after the password of a person with the most passkeys."""
    driver = site.driver()
    page = driver.sign_in(driver.open("/accounts/sign-in"), site.holders.passkeys.email, PASSWORD)
    path = page.url.removeprefix(site.base_url).encode()
    flood(site, until, itertools.repeat(site.request(b"GET " + path, cookies_of(driver))), 10)


def browsers_and_exports(site: Site, until: float) -> None:
    """The pages that list all sessions of a person who has the most."""
    token, headers = site.form(site.driver(site.holders.sessions), "/accounts/export")
    export = site.request(b"POST /accounts/export", FORM + headers, f"csrfmiddlewaretoken={token}".encode())
    flood(site, until, itertools.cycle([site.request(b"GET /accounts/browsers", headers), export]), 10)


def pictures(site: Site, until: float) -> None:
    """Two people upload a picture that costs much to read, again and again, over two connections each."""

    def request(person: Any) -> bytes:
        driver = site.driver(person)
        token, cookies = site.form(driver, "/accounts/profile")
        fields = {"csrfmiddlewaretoken": token, "nickname": "Alice"}
        files = {"picture": ("picture", site.holders.picture)}
        post = requests.Request("POST", site.base_url, files=files, data=fields).prepare()
        headers = cookies + f"Content-Type: {post.headers['Content-Type']}\r\nOrigin: {driver.auth_url}\r\n".encode()
        assert isinstance(post.body, bytes)
        return site.request(b"POST /accounts/profile", headers, post.body)

    flood(site, until, itertools.cycle([request(person) for person in site.holders.uploaders]), 4)


ATTACKS: dict[str, Attack] = {
    "sign-ins for addresses nobody has, 16 connections": sign_ins,
    "exchanges for public and invented clients, 16 connections": exchanges,
    "bad tokens, 16 connections": repeated(16, (b"GET /oauth/userinfo", b"Authorization: Bearer x\r\n")),
    "sign-in pages, 16 connections": repeated(16, (b"GET /accounts/sign-in",)),
    "posts without a token, 16 connections": repeated(
        16, *((b"POST " + path.encode(), FORM, FIELDS) for path in sorted(example_paths()))
    ),
    "reset mails while the mail server is slow, 6 connections": resets,
    "answers that are not read, 40 connections": unread_answers,
    "headers that trickle, 40 connections": trickled_headers,
    "bodies that trickle, 40 connections": trickled_bodies,
    "2,000 idle connections": kept_connections,
    "second-factor pages with 20 passkeys, 10 connections": second_factor_pages,
    "browsers and exports of 100 sessions, 10 connections": browsers_and_exports,
    "pictures of 49 megapixels, two accounts, 4 connections": pictures,
}
