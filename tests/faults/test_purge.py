"""`manage.py purge` as a process: stopped, concurrent, during requests, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db import connection, models, transaction
from django.utils import timezone

from oauth_bridge.maintenance import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.server import ROOT, environment
from tests.smtp import wait_until

pytestmark = pytest.mark.usefixtures("postgresql")

ROWS = 2_000
MANY = 50_000  # more than ten batches
TOKENS = AccessToken._meta.db_table
PURGE = [sys.executable, "manage.py", "purge"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(committed: None, tmp_path: Path) -> Iterator[Start]:
    """`start()` runs a purge as a process, with its log in a pipe."""
    started: list[subprocess.Popen[str]] = []

    def run(**options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started.append(subprocess.Popen(PURGE, cwd=ROOT, env=environment(tmp_path), text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def graveyard(committed: None) -> Registered:
    return application_with(ROWS)


@pytest.fixture
def large_graveyard(committed: None) -> Registered:
    return application_with(MANY)


def application_with(expired: int) -> Registered:
    """An application with so many expired tokens and a valid one. No other row in the database has expired."""
    purge_here()
    application: Registered = ApplicationFactory()
    bury(AccessToken, application, expired)
    TokenFactory(application=application)
    return application


def purge_here() -> None:
    for _ in purging.batches(timezone.now()):
        pass


def bury(model: type[models.Model], application: Registered, rows: int) -> None:
    """Insert expired rows by SQL."""
    long_ago = timezone.now() - timedelta(days=2)
    names, values = "", ""
    if model is AuthorizationCode:
        names, values = ", attempt, redirect_uri, code_challenge", ", gen_random_uuid(), 'https://client.example/', ''"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table}"
            f" (digest, scope, application_id, user_id, issued_at, expires_at{names})"
            " WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s)"
            f" SELECT sha256(gen_random_uuid()::text::bytea), 'profile', %s, %s, %s, %s{values} FROM numbers",
            [rows, application.row.pk, PersonFactory().pk, long_ago, long_ago],
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


@contextmanager
def nothing_deleted(table: str) -> Iterator[Callable[[int], None]]:
    """Every DELETE waits until the block ends; `waiting(n)` returns once n processes have waited.

    A purge gives up after half a second, and waits again two seconds later: two of them seldom wait at the same moment.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN SHARE MODE")

        def waiting(count: int) -> None:
            seen: set[int] = set()
            wait_until(lambda: (seen.update(waits_for(table)), len(seen) >= count)[1])

        yield waiting


def waits_for(table: str) -> set[int]:
    """The ids of the PostgreSQL processes that wait for the table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND datname = current_database() AND relation = %s::regclass",
            [table],
        )
        return {pid for (pid,) in cursor.fetchall()}


# Stopped --------------------------------------------------------------------------------------------------------------


def test_a_purge_that_is_stopped_leaves_whole_batches_and_goes_on_when_run_again(
    start: Start, large_graveyard: Registered
) -> None:
    """Each batch is a line of JSON."""
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
        assert 1 < left(large_graveyard) == before + 1 - deleted(lines)
        assert purging.last_finished() == finished_before
        before -= deleted(lines)

    process = start()
    output, log = process.communicate(timeout=600)
    *batches, last = lines_of(log)
    assert (process.returncode, output) == (0, "")
    assert {line["message"] for line in batches} == {"A batch was deleted."}
    assert {line["table"] for line in batches} == {TOKENS}
    assert [line["done"] for line in batches] == sorted(line["done"] for line in batches)
    assert last["message"].startswith("The purge is finished after ")
    assert last["total"] == deleted(batches) == before
    assert left(large_graveyard) == 1
    assert purging.last_finished() != finished_before


@contract("O.purge")
def test_a_statement_that_gets_nowhere_is_cut_off_and_tried_again(start: Start, graveyard: Registered) -> None:
    with nothing_deleted(TOKENS) as waiting:
        process = start()
        for _ in range(2):
            waiting(1)
            wait_until(lambda: not waits_for(TOKENS))
    lines = lines_of(process.communicate(timeout=600)[1])
    assert (process.returncode, deleted(lines)) == (0, ROWS)
    assert [line["table"] for line in lines if line["level"] == "warning"][:1] == [TOKENS]
    assert left(graveyard) == 1


# Concurrency ----------------------------------------------------------------------------------------------------------


def test_two_purges_at_once_delete_each_row_once(start: Start, graveyard: Registered) -> None:
    with nothing_deleted(TOKENS) as waiting:
        both = [start(), start()]
        waiting(2)
    logs = [lines_of(process.communicate(timeout=600)[1]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert deleted(logs[0]) + deleted(logs[1]) == ROWS
    assert left(graveyard) == 1


def test_a_row_that_somebody_holds_is_left_to_the_next_run(start: Start, graveyard: Registered) -> None:
    rows = AccessToken.objects.filter(application=graveyard.row, expires_at__lt=timezone.now())
    with transaction.atomic():
        held = rows.select_for_update()[0]
        process = start()
        lines = lines_of(process.communicate(timeout=600)[1])
        assert (process.returncode, deleted(lines)) == (0, ROWS - 1)
        assert list(rows) == [held]
    purge_here()
    assert left(graveyard) == 1


@contract("O.purge")
def test_a_purge_beside_live_redemptions_loses_nothing(
    launch: Launch, start: Start, large_graveyard: Registered
) -> None:
    bury(AuthorizationCode, large_graveyard, MANY // 2)
    server, application = launch(), ApplicationFactory()
    codes = [CodeFactory(application=application).raw for _ in range(60)]
    bury(AuthorizationCode, large_graveyard, MANY // 2)
    process = start()
    assert process.stderr is not None
    process.stderr.readline()  # the first batch is deleted

    def redeemed(code: str) -> str:
        form = {"grant_type": "authorization_code", "code": code}
        form |= {"client_id": application.client_id, "client_secret": application.client_secret}
        return str(requests.post(f"{server.base_url}/oauth/token", data=form, timeout=60).json()["access_token"])

    with ThreadPoolExecutor(4) as pool:
        tokens = list(pool.map(redeemed, codes[:4]))
        assert process.poll() is None, "The purge was over before it could disturb anybody"
        tokens += pool.map(redeemed, codes[4:])
    rest_of(process)
    assert process.returncode == 0
    for token in tokens:
        answer = requests.get(
            f"{server.base_url}/oauth/userinfo", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        assert answer.status_code == 200
    spent = AuthorizationCode.objects.filter(application=application.row, redeemed_at__isnull=False)
    assert spent.count() == left(application) == 60
    assert not AuthorizationCode.objects.filter(application=large_graveyard.row).exists()
    assert left(large_graveyard) == 1


# Output ---------------------------------------------------------------------------------------------------------------


def test_at_a_terminal_a_bar_is_drawn_and_nothing_logged(start: Start, graveyard: Registered) -> None:
    """And it says that a statement was cut off."""
    ours, theirs = pty.openpty()
    shown = b""
    with nothing_deleted(TOKENS):
        process = start(stdout=theirs, stderr=theirs)
        os.close(theirs)
        while b"trying again" not in shown:
            shown += os.read(ours, 65536)  # an OSError once the purge has ended
    with suppress(OSError):  # the terminal is closed
        while more := os.read(ours, 65536):
            shown += more
    os.close(ours)
    *drawn, sentence = shown.decode().strip().splitlines()
    assert process.wait(600) == 0
    assert sentence.startswith("The purge is finished after ")
    bars = [bar for bar in "".join(drawn).split("[") if bar]
    assert bars[-1].rstrip() == f"{'#' * 30}] 100%  deleted rows: {ROWS:,}"
    assert b"{" not in shown


def test_a_table_that_is_locked_when_it_begins_ends_it_with_what_to_do(start: Start, graveyard: Registered) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {TOKENS} IN ACCESS EXCLUSIVE MODE")
        process = start()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.strip().splitlines()[-1] == (
        "The database can't be used: canceling statement due to lock timeout. Try again later."
    )
    assert left(graveyard) == ROWS + 1
