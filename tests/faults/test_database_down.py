"""PostgreSQL goes away and comes back. D19: 503 with Retry-After, and the service recovers by itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import Launch
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, CodeFactory, Registered, TokenFactory
from tests.matrix import contract
from tests.server import database_url


class Cable:
    """A TCP proxy in front of the database that can be cut and mended."""

    def __init__(self) -> None:
        given = urlsplit(os.environ["DATABASE_URL"])
        self.target = (unquote(given.hostname or "localhost"), given.port or 5432)
        self.open: list[socket.socket] = []
        self.listener = self._listen(0)
        self.port = self.listener.getsockname()[1]

    def url(self) -> str:
        given = urlsplit(database_url())
        login = given.netloc.rpartition("@")[0]
        return given._replace(netloc=f"{login}@127.0.0.1:{self.port}" if login else f"127.0.0.1:{self.port}").geturl()

    def cut(self) -> None:
        for end in [self.listener, *self.open]:
            hang_up(end)
        self.open = []

    def mend(self) -> None:
        self.listener = self._listen(self.port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), reuse_port=False)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = self._connect()
            except OSError:
                return
            self.open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = self.target
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{host}/.s.PGSQL.{port}")
        return far


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    hang_up(source)
    hang_up(sink)


def hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@pytest.fixture
def cable(postgresql: None) -> Iterator[Cable]:
    cable = Cable()
    yield cable
    cable.cut()


@contract("D19/temporarily_unavailable", "D19.page")
def test_without_the_database_503_is_said_and_afterwards_all_goes_on(
    cable: Cable, launch: Launch, application: Registered, alice: Any
) -> None:
    server = launch(DATABASE_URL=cable.url())
    driver = OAuthDriver(server.base_url, server.auth_url)
    driver.signed_in(alice.email, PASSWORD)
    token, code = TokenFactory(user=alice).raw, CodeFactory(application=application).raw
    assert driver.userinfo(token).status_code == 200

    cable.cut()
    for _ in range(2):
        for answer in (driver.userinfo(token), driver.exchange(application, code)):
            error_of(answer, 503, "temporarily_unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
        page = driver.get(driver.authorization_url(application))
        assert page.status_code == 503
        assert page.headers["Content-Type"].startswith("text/html")
        assert int(page.headers["Retry-After"]) >= 1
        assert "Back in a moment" in Page(page).text
    assert driver.call("GET", "/health/live").status_code == 200
    assert driver.call("GET", "/health/ready").status_code == 503

    cable.mend()
    assert driver.userinfo(token).status_code == 200
    assert driver.exchange(application, code).status_code == 200
    assert Page(driver.open(driver.authorization_url(application))).consent
    assert driver.call("GET", "/health/ready").status_code == 200
