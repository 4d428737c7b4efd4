"""Attacks from one machine by strangers. `attack` measures their effect on other clients, and counts them."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.bench.holders import Holders

LONG = 31_000
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
CSRF = re.compile(rb'name="csrfmiddlewaretoken" value="([^"]+)"')
COOKIE = re.compile(rb"(?i)set-cookie: ([^;\r]+)")
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ")


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
class Site:
    """The target of the attack, the public client_id that it sends, and the accounts that the attacker owns.

    `address` is the attacker's network address. Limits that one attack has reached must not stop the next one.
    """

    port: int
    address: str
    public_client_id: str
    holders: Holders
    tally: Tally = field(default_factory=Tally)

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

    def form(self, path: bytes, cookie: bytes = b"") -> tuple[bytes, bytes]:
        """The CSRF token of the page's form, and the header with the cookies for its post."""
        page = self.ask(self.request(b"GET " + path, b"Cookie: " + cookie + b"\r\n" if cookie else b""))
        token = CSRF.search(page)
        if token is None:
            raise RuntimeError(f"{path.decode()} has no form: {page[:100]!r}")
        cookies = b"; ".join(filter(None, [cookie, *COOKIE.findall(page)]))
        return token[1], b"Cookie: " + cookies + b"\r\n"

    def request(self, line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        host = b"Host: localhost:%d\r\nConnection: close\r\n" % self.port
        return line + b" HTTP/1.1\r\n" + host + headers + length + b"\r\n" + body


Attack = Callable[[Site, float], None]


class Shared:
    """Hands out requests to several threads: only one thread at a time may use a generator."""

    def __init__(self, requests: Iterable[bytes]) -> None:
        self._requests, self._lock = iter(requests), threading.Lock()

    def take(self) -> bytes:
        with self._lock:
            return next(self._requests)


def flood(site: Site, until: float, requests: Iterable[bytes], connections: int) -> None:
    """Send requests on new connections, so many at a time."""
    shared = Shared(requests)

    def send(_number: int) -> None:
        while time.monotonic() < until:
            site.ask(shared.take())

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, range(connections)))  # raises what a thread raised


def repeated(connections: int, *requests: tuple[bytes, ...]) -> Attack:
    """Sends these requests, each of a line, headers and a body, in turn."""

    def attack(site: Site, until: float) -> None:
        flood(site, until, itertools.cycle([site.request(*each) for each in requests]), connections)

    return attack


def sign_ins(site: Site, until: float) -> None:
    """Sign-ins for unknown e-mail addresses, a new one each time."""
    token, cookies = site.form(b"/accounts/sign-in")

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            body = b"csrfmiddlewaretoken=%s&login=%d-%d%%40example.net&password=a+long+wrong+password"
            yield site.request(b"POST /accounts/sign-in", FORM + cookies, body % (token, os.getpid(), number))

    flood(site, until, requests(), 16)


def exchanges(site: Site, until: float) -> None:
    """Exchanges of unknown codes, with a public client_id and with unknown ones."""

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            client = site.public_client_id.encode() if number % 2 else b"invented-%d" % number
            body = b"grant_type=authorization_code&code=x%d&client_id=%s&code_verifier=%s" % (number, client, b"v" * 43)
            yield site.request(b"POST /oauth/token", FORM, body)

    flood(site, until, requests(), 16)


def resets(site: Site, until: float) -> None:
    """Requests for reset mails, for people and for addresses nobody has."""
    token, cookies = site.form(b"/accounts/password/reset")

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            email = (
                site.holders.addresses[number % len(site.holders.addresses)] if number % 2 else f"x-{number}@a.example"
            )
            body = b"csrfmiddlewaretoken=%s&email=%s" % (token, email.replace("@", "%40").encode())
            yield site.request(b"POST /accounts/password/reset", FORM + cookies, body)

    flood(site, until, requests(), 6)


PARTS = b"".join(
    b'--b\r\nContent-Disposition: form-data; name="%d"%s\r\n\r\nx\r\n' % (number, b";" * 930) for number in range(38)
)
MULTIPART = b"Content-Type: multipart/form-data; boundary=b\r\n"
TAKES_MULTIPART = (b"/health/live", b"/oauth/token", b"/accounts/sign-in", b"/accounts/profile", b"/nowhere")


STORING = (
    b"/accounts/sign-in",
    b"/accounts/sign-up",
    b"/accounts/password/reset",
    b"/accounts/sign-in/passkey",
    b"/accounts/sign-in/forget",
    b"/accounts/language",
    b"/accounts/sign-out",
    b"/accounts/profile",
    b"/accounts/password/change",
    b"/accounts/confirm",
    b"/accounts/email",
    b"/accounts/confirm-email",
    b"/accounts/delete",
    b"/accounts/security/authenticator",
    b"/accounts/export",
    b"/oauth/authorize",
    b"/admin/login/",
)


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


BY_STRANGERS: dict[str, Attack] = {
    "`Accept` of 31,000 stars, 4 connections": repeated(
        4, (b"GET /oauth/userinfo", b"Accept: ;" + b"*" * LONG + b"\r\n")
    ),
    "quoted cookie of 31,000 backslashes, 4 connections": repeated(
        4, (b"GET /accounts/sign-in", b'Cookie: a="' + b"\\" * LONG + b'"\r\n')
    ),
    "`Content-Length` of 4,301 zeros, 4 connections": repeated(
        4, (b"POST /oauth/token", FORM + b"Content-Length: " + b"0" * 4301 + b"\r\n")
    ),
    "sign-ins for addresses nobody has, 16 connections": sign_ins,
    "exchanges for public and invented clients, 16 connections": exchanges,
    "bad tokens, 16 connections": repeated(16, (b"GET /oauth/userinfo", b"Authorization: Bearer x\r\n")),
    "sign-in pages, 16 connections": repeated(16, (b"GET /accounts/sign-in",)),
    "38 parts of 930 semicolons, 16 connections": repeated(
        16, *((b"POST " + path, MULTIPART, PARTS + b"--b--\r\n") for path in TAKES_MULTIPART)
    ),
    "posts without a token, 16 connections": repeated(16, *((b"POST " + path, FORM, FIELDS) for path in STORING)),
    "reset mails while the mail server is slow, 6 connections": resets,
    "answers that are not read, 40 connections": unread_answers,
    "headers that trickle, 40 connections": trickled_headers,
    "bodies that trickle, 40 connections": trickled_bodies,
    "2,000 idle connections": kept_connections,
}


def lowest_priority() -> None:
    """Give this process the lowest priority: an attacker on another machine takes no CPU time from the service."""
    os.nice(19)
    random.seed()
