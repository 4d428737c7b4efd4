"""A worker looks for work without disturbing others, and outlives a database that is away."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection

from accounts.mail import outbox
from config.infrastructure.worker import Worker

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_looking_for_work_takes_no_write_lock() -> None:
    statements: list[str] = []

    def note(execute: Any, sql: str, *given: Any) -> Any:
        statements.append(sql)
        return execute(sql, *given)

    with connection.execute_wrapper(note):
        assert outbox.claim() is None
    assert [statement.split()[0] for statement in statements] == ["SELECT"]


def test_a_database_that_is_away_ends_no_worker_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []

    def work() -> bool:
        rounds.append(0)
        if len(rounds) == 4:
            worker.end()
            return False
        worker.wake()
        raise DatabaseError("connection to server at 192.0.2.1 failed")

    worker = Worker("outbox", work)
    worker.start()
    worker.join(60)
    assert len(rounds) == 4
    assert caplog.text.count("waiting for the database") == 1
