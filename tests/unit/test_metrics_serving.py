"""The page of the metrics, and what is read when somebody asks for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from django.db import OperationalError
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import Email
from accounts.models import OutgoingMail
from config.metrics import serving, state
from oauth_bridge.key_models import SigningKey
from oauth_bridge.models import PurgeRun
from tests.smtp import wait_until

TEXT = b"delegated_database_up 1.0\n"


@contextmanager
def served(page: Callable[[], bytes]) -> Iterator[tuple[str, int]]:
    """The address of a server with this page."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = serving.Server(listener, page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield listener.getsockname()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with served(lambda: TEXT) as found:
        yield found


def url(address: tuple[str, int], path: str) -> str:
    return f"http://{address[0]}:{address[1]}{path}"


def test_the_page_is_plain_text_and_all_else_is_refused_in_one_line(address: tuple[str, int], caplog: Any) -> None:
    answer = requests.get(url(address, "/metrics?name=x"), timeout=60)
    assert (answer.status_code, answer.content) == (200, TEXT)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    for path in ("/", "/metrics/", "/health/live"):
        answer = requests.get(url(address, path), timeout=60)
        assert (answer.status_code, answer.text) == (404, serving.NOT_FOUND)
        assert answer.text.count("\n") == 1
    answer = requests.post(url(address, "/metrics"), timeout=60)
    assert (answer.status_code, answer.text.count("\n")) == (501, 1)

    def broken() -> bytes:
        raise OSError("private")

    with served(broken) as address:
        answer = requests.get(url(address, "/metrics"), timeout=60)
    assert (answer.status_code, answer.text) == (500, "The metrics can't be read. See the log.\n")
    assert "the metrics can't be read" in caplog.text


def is_served(address: tuple[str, int]) -> bool:
    try:
        return requests.get(url(address, "/metrics"), timeout=60).content == TEXT
    except requests.ConnectionError:
        return False


def test_clients_that_say_nothing_are_few_and_are_given_up(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CONNECTION_SECONDS", 600)
    with ExitStack() as silent:
        for _ in range(serving.MOST_CONNECTIONS):
            silent.enter_context(socket.create_connection(address, timeout=60)).sendall(b"G")
        with socket.create_connection(address, timeout=60) as beyond:
            assert beyond.recv(1) == b"", "the connection is closed"
    monkeypatch.setattr(serving, "CONNECTION_SECONDS", 0.5)
    wait_until(lambda: is_served(address))
    with socket.create_connection(address, timeout=60) as slow:
        slow.sendall(b"G")
        assert slow.recv(1) == b""


# The state of the database -------------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.django_db
def test_queues_and_ages_are_those_of_the_database(settings: Any, tmp_path: Path, time_machine: Any) -> None:
    empty = state.read()
    assert empty.queues == {"mails": state.Queue(0, 0, 0), "logouts": state.Queue(0, 0, 0)}
    assert (empty.purge_age, empty.key_ages) == ({}, {})
    now = timezone.now().replace(microsecond=0)
    time_machine.move_to(now, tick=False)
    for attempts, due_at in ((3, now + timedelta(minutes=5)), (0, now - timedelta(minutes=5))):
        outbox.add_notice("test", Email("a@example.org", "s", "t", "h"), once=str(attempts))
        OutgoingMail.objects.filter(attempts=0).update(attempts=attempts, due_at=due_at)
    OutgoingMail.objects.create(kind="sent", sealed=b"", due_at=now, expires_at=now)
    PurgeRun.objects.create(finished_at=now - timedelta(hours=2))
    for days, revoked_at in ((100, None), (30, None), (1, now)):
        SigningKey.objects.create(
            kid=str(days), algorithm="ES256", made_at=now - timedelta(days=days), signs_from=now, revoked_at=revoked_at
        )
    found = state.read()
    assert found.queues["mails"] == state.Queue(waiting=2, retried=1, overdue_seconds=300)
    assert found.purge_age == {(): 7200}
    assert found.key_ages == {("ES256",): 30 * 86400}
    settings.SIGNING_KEYS = tmp_path
    assert state.read().key_ages == {}, "keys in files have no age here"


def values(collector: state.StateCollector) -> dict[str, float]:
    return {sample.name: sample.value for family in collector.collect() for sample in family.samples}


READ = state.State({"mails": state.Queue(3, 1, 60.0)}, {(): 5.0}, {("RS256",): 7.0})


def test_the_database_is_asked_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(state, "read", lambda: (asked.append(1), READ)[1])
    collector = state.StateCollector()
    for _ in range(3):
        found = values(collector)
    assert len(asked) == 1
    assert found["delegated_database_up"] == found["delegated_build_info"] == 1
    assert found["delegated_queue_waiting"] == 3
    assert found["delegated_queue_overdue_seconds"] == 60
    assert found["delegated_purge_age_seconds"] == 5
    assert found["delegated_signing_key_age_seconds"] == 7
    monkeypatch.setattr(state, "FRESH_SECONDS", 0.0)
    values(collector)
    assert len(asked) == 2


def test_a_database_that_never_answers_is_waited_for_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, asked = threading.Event(), []

    def read() -> state.State:
        asked.append(1)
        answer.wait(60)
        return READ

    monkeypatch.setattr(state, "read", read)
    monkeypatch.setattr(state, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(state, "FRESH_SECONDS", 0.0)
    collector = state.StateCollector()
    for _ in range(3):
        found = values(collector)
        assert found == {"delegated_build_info": 1, "delegated_database_up": 0}
    assert len(asked) == 1
    answer.set()


def test_a_database_that_is_away_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    error = OperationalError("could not connect to db.example with password hidden")
    monkeypatch.setattr(state, "read", Mock(side_effect=error))
    monkeypatch.setattr(state, "FRESH_SECONDS", 0.0)
    collector = state.StateCollector()
    assert [values(collector)["delegated_database_up"] for _ in range(3)] == [0, 0, 0]
    assert [record.message for record in caplog.records] == ["metrics lack the database"]
    assert "hidden" not in caplog.text
