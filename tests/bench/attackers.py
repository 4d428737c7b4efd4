"""Attacks from one machine. `attack` measures their effect on other clients."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MALLORY = "127.0.0.3"
LONG = 31_000
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
CSRF = re.compile(rb'name="csrfmiddlewaretoken" value="([^"]+)"')
COOKIE = re.compile(rb"(?i)set-cookie: ([^;\r]+)")


@dataclass(frozen=True)
class Site:
    """The target of the attack, and the public client_id that it sends."""

    port: int
    public_client_id: str

    def connect(self, *, window: int | None = None) -> socket.socket:
        connection = socket.socket()
        if window is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.settimeout(10)
        connection.bind((MALLORY, 0))
        connection.connect(("127.0.0.1", self.port))
        return connection

    def ask(self, data: bytes) -> bytes:
        """The complete response; empty when there was none."""
        received = b""
        with contextlib.suppress(OSError), self.connect() as connection:
            connection.sendall(data)
            while part := connection.recv(65536):
                received += part
        return received

    def request(self, line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        host = b"Host: localhost:%d\r\nConnection: close\r\n" % self.port
        return line + b" HTTP/1.1\r\n" + host + headers + length + b"\r\n" + body


Attack = Callable[[Site, float], None]


def flood(site: Site, until: float, requests: Iterator[bytes], connections: int) -> None:
    """Send requests on new connections, so many at a time."""

    def send() -> None:
        while time.monotonic() < until:
            site.ask(next(requests))

    _at_once(send, connections)


def _at_once(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def plain(site: Site, until: float) -> None:
    flood(site, until, itertools.repeat(site.request(b"GET /oauth/userinfo", b"Authorization: Bearer x\r\n")), 16)


def pages(site: Site, until: float) -> None:
    flood(site, until, itertools.repeat(site.request(b"GET /accounts/sign-in")), 16)


def long_accept(site: Site, until: float) -> None:
    header = b"Accept: ;" + b"*" * LONG + b"\r\n"
    flood(site, until, itertools.repeat(site.request(b"GET /oauth/userinfo", header)), 4)


def quoted_cookie(site: Site, until: float) -> None:
    header = b'Cookie: a="' + b"\\" * LONG + b'"\r\n'
    flood(site, until, itertools.repeat(site.request(b"GET /accounts/sign-in", header)), 4)


def long_length(site: Site, until: float) -> None:
    request = site.request(b"POST /oauth/token", FORM + b"Content-Length: " + b"0" * 4301 + b"\r\n")
    flood(site, until, itertools.repeat(request), 4)


def sign_ins(site: Site, until: float) -> None:
    """Sign-ins for unknown e-mail addresses, a new one each time."""
    page = site.ask(site.request(b"GET /accounts/sign-in"))
    token, cookie = CSRF.search(page), COOKIE.search(page)
    if token is None or cookie is None:
        raise RuntimeError("The sign-in page has no form.")
    header = FORM + b"Cookie: " + cookie[1] + b"\r\n"

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            body = b"csrfmiddlewaretoken=%s&login=%d-%d%%40example.net&password=a+long+wrong+password"
            yield site.request(b"POST /accounts/sign-in", header, body % (token[1], os.getpid(), number))

    flood(site, until, requests(), 16)


def exchanges(site: Site, until: float) -> None:
    """Exchanges of unknown codes, with a public client_id and with unknown ones."""

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            client = site.public_client_id.encode() if number % 2 else b"invented-%d" % number
            body = b"grant_type=authorization_code&code=x%d&client_id=%s&code_verifier=%s" % (number, client, b"v" * 43)
            yield site.request(b"POST /oauth/token", FORM, body)

    flood(site, until, requests(), 16)


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
    """Keep so many connections open. Each sends the beginning, then some bytes every half second, and reads none."""
    held: list[socket.socket] = []
    while time.monotonic() < until:
        while len(held) < count and time.monotonic() < until:
            try:
                connection = site.connect(window=1024)
                connection.setblocking(False)
                connection.send(beginning)
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


ATTACKS: dict[str, Attack] = {
    "`Accept` of 31,000 stars, 4 connections": long_accept,
    "quoted cookie of 31,000 backslashes, 4 connections": quoted_cookie,
    "`Content-Length` of 4,301 zeros, 4 connections": long_length,
    "sign-ins for addresses nobody has, 16 connections": sign_ins,
    "exchanges for public and invented clients, 16 connections": exchanges,
    "bad tokens, 16 connections": plain,
    "sign-in pages, 16 connections": pages,
    "answers that are not read, 40 connections": unread_answers,
    "headers that trickle, 40 connections": trickled_headers,
    "bodies that trickle, 40 connections": trickled_bodies,
    "2,000 idle connections": kept_connections,
}


def lowest_priority() -> None:
    """Give this process the lowest priority: an attacker on another machine takes no CPU time from the service."""
    os.nice(19)
    random.seed()
