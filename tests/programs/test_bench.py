"""The benchmark measures what it says, its rows are what the service reads, and it fills no database somebody uses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.utils import timezone

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.maintenance import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import tokens
from tests.bench import attackers, rows
from tests.factories import CodeFactory, PersonFactory, TokenFactory
from tests.server import ROOT, environment


@pytest.fixture
def nobody(db: Any, postgresql: None, django_user_model: Any) -> None:
    """What tests over HTTP have left in this database is out of sight for the test, but for the next key."""
    CodeFactory(), TokenFactory()
    for model in (AuthorizationCode, AccessToken, django_user_model):
        model.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no table is altered while checks of it are pending


def constraints_and_indexes() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype <> 'n'")
        found = {name for (name,) in cursor.fetchall()}
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()")
        return found | {name for (name,) in cursor.fetchall()}


@pytest.mark.django_db
def test_loaded_rows_are_what_the_service_reads_and_nothing_else_changes(nobody: None) -> None:
    before = constraints_and_indexes()
    for _ in range(2):
        rows.fill(people=10, tokens=100, codes=50)
    assert constraints_and_indexes() == before
    assert AccessToken.objects.count() == 200
    for number in (1, 100, 101, 200):
        bearer = tokens.read(rows.token(number))
        assert bearer.user.pk == rows.person_id(1 + number * 7919 % 10)
        assert bearer.scopes == ["profile"]
    spent, fresh = (AuthorizationCode.objects.get(digest=digest_of(rows.code(number))) for number in (1, 10))
    assert spent is not None
    assert spent.redeemed_at is not None
    assert bytes(spent.token_digest or b"") == hashlib.sha256(rows.token(1).encode()).digest()
    assert fresh is not None
    assert fresh.redeemed_at is None


@pytest.mark.django_db
def test_dead_rows_are_refused_and_purged(nobody: None) -> None:
    rows.fill(people=10, tokens=100, codes=100, dead=True)
    with pytest.raises(RequestError) as refused:
        tokens.read(rows.token(7))
    assert refused.value.fault is OAuthFault.TOKEN_EXPIRED
    purged = Counter[str]()
    for batch in purging.batches(timezone.now()):
        purged[batch.table] += batch.rows
    assert [purged[model._meta.db_table] for model in (AuthorizationCode, AccessToken)] == [100, 100]


@pytest.mark.django_db
def test_a_database_in_which_somebody_lives_is_not_filled(nobody: None) -> None:
    PersonFactory(email="alice@example.com")
    with pytest.raises(rows.NotHere, match="Somebody lives in this database"):
        rows.fill(people=10, tokens=10, codes=10)
    assert AccessToken.objects.count() == 0


def test_another_database_than_postgresql_is_not_filled(db: Any, tmp_path: Path) -> None:
    ended = bench(tmp_path, "load", DATABASE_URL=f"sqlite:///{tmp_path}/db.sqlite3")
    assert ended.returncode == 1
    assert ended.stderr == "Rows are made by PostgreSQL itself: set DATABASE_URL to one. This is another database.\n"


def test_every_operation_is_measured_beside_the_floor(postgresql: None, tmp_path: Path) -> None:
    ended = bench(tmp_path, "--rounds=1", "--operations=20", "--race=3", f"--json={tmp_path}/figures")
    assert ended.returncode == 0, ended.stderr
    assert "0 failed" in ended.stdout
    figures = json.loads((tmp_path / "figures").read_text())
    done = {each["phase"]: each["done"] for each in figures["measured"]}
    assert done == {"authorize": 20, "token": 20, "userinfo": 40, "flow": 10, "select": 40}
    assert sum(each["cpu"]["server"] for each in figures["measured"]) > 0
    assert figures["race"] == {"1": 3}


def test_a_full_database_is_measured_beside_an_empty_one(postgresql: None, tmp_path: Path) -> None:
    sizes = ["--sizes", "0", "1000"]
    ended = bench(tmp_path, "growth", "--rounds=1", "--operations=8", *sizes, f"--plot={tmp_path}/plot.svg")
    assert ended.returncode == 0, ended.stderr
    assert "0 failed" in ended.stdout
    assert {row.split()[0] for row in ended.stdout.splitlines()[2:7]} == {
        "authorize",
        "token",
        "userinfo",
        "flow",
        "any",
    }
    assert ElementTree.parse(tmp_path / "plot.svg").getroot().get("aria-label")


def test_an_attack_is_counted_and_its_rows_too(postgresql: None, tmp_path: Path) -> None:
    ended = bench(tmp_path, "attack", "--only=posts without a token", "--way=nginx", "--seconds=1")
    assert ended.returncode == 0, ended.stderr
    told = re.search(r"^nginx: posts without a token, 16 connections: (\d+) requests, answers {", ended.stderr, re.M)
    assert told
    assert int(told[1]) > 16, "each connection sends again"
    assert f"| nginx | {told[1]} |" in ended.stdout


def test_threads_of_an_attack_share_its_requests() -> None:
    shared = attackers.Shared(str(number).encode() for number in range(20_000))
    with ThreadPoolExecutor(8) as pool:
        taken = [each for part in pool.map(lambda _: [shared.take() for _ in range(2500)], range(8)) for each in part]
    assert len(set(taken)) == 20_000


def test_ctrl_c_ends_all_that_was_started(postgresql: None, tmp_path: Path) -> None:
    before = {path.name for path in Path("/proc").glob("[0-9]*")}
    command = [sys.executable, "-m", "tests.bench", "--rounds=1", "--operations=5000"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        needed(process.stderr.readline())  # "Warming up": all of it has been started
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert [pid for pid in left_by_a_benchmark() if pid not in before] == []


def left_by_a_benchmark() -> list[str]:
    """Processes whose working directory has gone with the benchmark's folder, and servers of it."""
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_in_lost_folder = re.search(r"/bench-\w+/?.* \(deleted\)$", os.readlink(folder / "cwd"))
            if is_in_lost_folder or b"FLOOR_DSN" in (folder / "environ").read_bytes():
                left.append(folder.name)
    return left


def bench(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        env=environment(folder, **changes),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    needed(ended.stderr)
    return ended


def needed(said: str) -> None:
    if "is not installed" in said:
        pytest.skip(said)


@pytest.mark.long
def test_no_operation_executes_more_instructions_than_it_may() -> None:
    command = [sys.executable, "-m", "tests.bench", "instructions", "--operations", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^flow +\d\.\d\d", done.stdout, re.MULTILINE)
