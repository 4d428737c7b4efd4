"""`manage.py purge` as a process: stopped, concurrent, during requests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from oauth_bridge.management import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import Redemptions, codes_for
from tests.peers import wait_until
from tests.server import ROOT, environment

pytestmark = pytest.mark.usefixtures("postgresql")

ROWS = 2_000
MANY = 50_000  # more than ten batches
TOKENS = AccessToken._meta.db_table
LONG_AGO = timezone.now() - timedelta(days=2)
PURGE = [sys.executable, "manage.py", "purge"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(committed: None, tmp_path: Path) -> Iterator[Start]:
    """`start()` runs a purge as a process, with its log in a pipe."""
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(PURGE, cwd=ROOT, env=environment(tmp_path), text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def application_with(expired: int) -> Registered:
    """An application with so many expired tokens and a valid one. No other row in the database has expired."""
    list(purging.batches(timezone.now()))
    application: Registered = ApplicationFactory()
    bury(application, expired)
    TokenFactory(application=application)
    return application


def bury(application: Registered, rows: int) -> None:
    """Insert expired tokens by SQL."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TOKENS} (digest, scope, application_id, user_id, issued_at, expires_at)"
            " SELECT sha256(gen_random_uuid()::text::bytea), 'profile', %s, %s, %s, %s FROM generate_series(1, %s)",
            [application.row.pk, PersonFactory().pk, LONG_AGO, LONG_AGO, rows],
        )


def left(application: Registered) -> int:
    return AccessToken.objects.filter(application=application.row).count()


def rest_of(process: subprocess.Popen[str]) -> str:
    """The log after a line of it was read; `communicate` would miss what the pipe's buffer holds."""
    assert process.stdout is not None
    assert process.stderr is not None
    rest = process.stderr.read()
    assert process.stdout.read() == ""
    process.wait(600)
    return rest


def lines_of(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


def deleted(lines: list[dict[str, Any]]) -> int:
    return sum(line["rows"] for line in lines if "rows" in line)


def waiting() -> set[int]:
    """The ids of the PostgreSQL processes that wait for the table of tokens."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND datname = current_database() AND relation = %s::regclass",
            [TOKENS],
        )
        return {pid for (pid,) in cursor.fetchall()}


def test_a_purge_that_is_stopped_leaves_whole_batches_and_goes_on_when_run_again(start: Start) -> None:
    """Each batch is a line of JSON."""
    graveyard = application_with(MANY)
    finished_before, before = purging.last_finished(), MANY
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start()
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(number)
        lines = lines_of(first + rest_of(process))
        assert process.returncode == 128 + number
        assert lines[-1]["message"].startswith(f"Stopped by {number.name}. ")
        assert lines[-1]["total"] == deleted(lines)
        assert 1 < left(graveyard) == before + 1 - deleted(lines)
        assert purging.last_finished() == finished_before
        before -= deleted(lines)

    process = start()
    output, log = process.communicate(timeout=600)
    of_other_tests = "Mails about client secrets that end soon were written."
    *batches, last = [line for line in lines_of(log) if line["message"] != of_other_tests]
    assert (process.returncode, output) == (0, "")
    assert {line["message"] for line in batches} == {"A batch was deleted."}
    assert {line["table"] for line in batches} == {TOKENS}
    assert [line["done"] for line in batches] == sorted(line["done"] for line in batches)
    assert last["message"].startswith("The purge is finished after ")
    assert last["total"] == deleted(batches) == before
    assert left(graveyard) == 1
    assert purging.last_finished() != finished_before


@contract("O.purge")
def test_two_purges_at_once_wait_for_the_table_and_delete_each_row_once(start: Start) -> None:
    graveyard = application_with(ROWS)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {TOKENS} IN SHARE MODE")  # every DELETE waits
        both = [start(), start()]
        wait_until(lambda: len(waiting()) >= 2)
    logs = [lines_of(process.communicate(timeout=600)[1]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert deleted(logs[0]) + deleted(logs[1]) == ROWS
    assert left(graveyard) == 1


@contract("O.purge")
def test_a_purge_beside_live_redemptions_loses_nothing(launch: Launch, start: Start) -> None:
    old, application, server = application_with(ROWS), ApplicationFactory(), launch()
    codes_for(old, MANY // 10, issued_at=LONG_AGO, expires_at=LONG_AGO)
    redemptions = Redemptions(server, application, 30)
    codes_for(old, MANY // 10, issued_at=LONG_AGO, expires_at=LONG_AGO)
    process = start()
    assert process.stderr is not None
    process.stderr.readline()  # the first batch is deleted

    def check_that_it_goes_on() -> None:
        assert process.poll() is None, "The purge was over before it could disturb anybody"

    redemptions.run_during(check_that_it_goes_on)
    rest_of(process)
    assert process.returncode == 0
    redemptions.check_that_none_failed()
    assert not AuthorizationCode.objects.filter(application=old.row).exists()
    assert left(old) == 1
