"""PostgreSQL stops and starts again. D19: 503 with Retry-After, and the service recovers by itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import pytest
from django.db import connection
from django.test import Client

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster
from tests.driver import OAuthDriver, Page, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.load import Redemptions
from tests.server import database_url, free_port


class Cable:
    """A TCP proxy in front of the database that can be interrupted and restored."""

    def __init__(self) -> None:
        given = urlsplit(os.environ["DATABASE_URL"])
        self.target = (unquote(given.hostname or "localhost"), given.port or 5432)
        self.open: list[socket.socket] = []
        self.port = free_port()
        self.listener = self._listen(self.port)

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
        check_excuses(driver, application, code, token)
    assert driver.call("GET", "/health/live").status_code == 200
    assert driver.call("GET", "/health/ready").status_code == 503

    cable.mend()
    assert driver.userinfo(token).status_code == 200
    assert driver.exchange(application, code).status_code == 200
    assert Page(driver.open(driver.authorization_url(application))).consent
    assert driver.call("GET", "/health/ready").status_code == 200


def test_the_page_without_the_database_can_be_read_in_another_language(
    cable: Cable, launch: Launch, application: Registered, alice: Any
) -> None:
    server = launch(DATABASE_URL=cable.url())
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(alice.email, PASSWORD)
    cable.cut()
    page = driver.get(driver.authorization_url(application))
    away_page_of(page)
    form = next(form for form in Page(page).forms if form.action.endswith("/accounts/language"))
    chosen = driver.submit(form, button=("language", "de"))
    assert chosen.status_code == 503
    assert "Gleich wieder da" in chosen.text


@contract("D19/temporarily_unavailable", "D19.page")
def test_without_a_free_connection_503_is_said_and_afterwards_all_goes_on(
    own_postgresql: Cluster, launch: Launch
) -> None:
    server = launch()
    driver = OAuthDriver(server.base_url, server.auth_url)
    application, alice = ApplicationFactory(), PersonFactory()
    driver.signed_in(alice.email, PASSWORD)
    token, code = TokenFactory(user=alice).raw, CodeFactory(application=application).raw
    own_postgresql.leave_sessions(0)
    check_excuses(driver, application, code, token)
    own_postgresql.leave_sessions(-1)
    assert driver.exchange(application, code).status_code == 200
    assert Page(driver.open(driver.authorization_url(application))).consent


@contract("D13.no-row", "D19/temporarily_unavailable")
def test_with_too_few_connections_each_exchange_is_done_whole_or_not_at_all(
    own_postgresql: Cluster, launch: Launch, redis_server: Any
) -> None:
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), 600)

    def fault() -> None:
        own_postgresql.leave_sessions(1)
        redemptions.wait_until(lambda: redemptions.trouble.total() > 0)
        own_postgresql.leave_sessions(-1)

    redemptions.run_during(fault)
    redemptions.check_books()
    assert set(redemptions.trouble) == {"503 temporarily_unavailable"}


READ_ONLY = {"postgresql": "SET default_transaction_read_only = on", "sqlite": "PRAGMA query_only = on"}


@contract("D19/temporarily_unavailable")
def test_a_connection_that_may_only_read_is_given_up_for_another(
    application: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    """For example to a PostgreSQL that became a standby, or to an SQLite file that was read-only when it was opened."""
    form = {
        "grant_type": "authorization_code",
        "code": CodeFactory(application=application).raw,
        "client_id": application.client_id,
        "client_secret": application.secret,
    }
    post = {"data": urlencode(form), "content_type": "application/x-www-form-urlencoded"}
    client = Client(raise_request_exception=False)
    with connection.cursor() as cursor:
        cursor.execute(READ_ONLY[connection.vendor])
    statuses = [client.post("/oauth/token", **post).status_code for _ in range(2)]
    connection.close()  # also after a failure, because other tests write
    assert statuses == [503, 200]
    [logged] = [record for record in caplog.records if record.message == "database away"]
    assert logged.code in ("25006", "SQLITE_READONLY")  # type: ignore[attr-defined]


def check_excuses(driver: OAuthDriver, application: Registered, code: str, token: str) -> None:
    """503 with Retry-After, as JSON for programs and as a page for browsers."""
    away_of(driver.userinfo(token))
    away_of(driver.exchange(application, code))
    away_page_of(driver.get(driver.authorization_url(application)))
