"""Every way in which a program does not start, or cannot do its work."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from django.db import OperationalError

import manage
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.server import ROOT, free_port

GUNICORN = ("-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi")


def start(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= {"DATABASE_URL": "sqlite:///:memory:", **variables}
    command = (sys.executable, *command)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


@contract("O.malformed")
@pytest.mark.parametrize("command", [GUNICORN, ("manage.py", "migrate")], ids=["gunicorn", "manage.py"])
def test_a_malformed_variable_ends_the_start_with_the_sentence_alone(command: tuple[str, ...]) -> None:
    ended = start(*command, DATABASE_URL="mysql://user:hidden@host/name")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch("DATABASE_URL must be ((?!hidden).)*\n", ended.stderr)


@contract("O.workers")
def test_several_workers_need_redis() -> None:
    ended = start(*GUNICORN, "-w", "2", BIND=f"127.0.0.1:{free_port()}")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("More than one worker needs REDIS_URL")
    assert "Traceback" not in ended.stderr


def test_a_port_for_metrics_that_is_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gunicorn = run_path(str(ROOT / "config" / "gunicorn.py"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(gunicorn["METRICS_FOLDER"], "")
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(SystemExit, match=r"is free\.$") as ended:
        gunicorn["serve_metrics"](f"127.0.0.1:{other.getsockname()[1]}")
    assert "(Address already in use)" in str(ended.value)
    assert list(tmp_path.iterdir()) == []


def test_an_older_python_or_one_without_django_is_told_which_one_is_needed() -> None:
    ended = start("-c", "import sys; sys.version_info = (3, 10, 13, 'final', 0); import manage")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Python 3.11 or newer is needed, and this is 3.10.")
    lines = re.findall(r"^python3 (-c 'import manage' && )?", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert (len(lines), all(lines)) == (2, True)
    ended = start("-S", "manage.py", "check")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Django is not installed for this Python: run .venv/bin/python manage.py")


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(committed: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """`run("purge")` runs the command on a database without tables, and returns its status and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["manage.py", *arguments])
        errors = io.StringIO()
        with redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            manage.main()
        status: Any = ended.value.code
        # Python prints a text.
        return (1, errors.getvalue() + status) if isinstance(status, str) else (status or 0, errors.getvalue())

    with in_use("sqlite:///:memory:"):
        yield run


def test_a_command_that_cannot_work_ends_in_one_sentence(run: Run) -> None:
    commands = [
        ("application", "create", "a\nb", "--redirect-uri", "https://a.example/"),
        ("application", "list"),
        ("application", "apply", "/nowhere"),
        ("application", "check", "nobody"),
        ("account", "unlock", "nobody@example.org"),
        ("purge",),
        ("after-restore",),
    ]
    ended = {command: run(*command) for command in commands}
    wordy = {command: said for command, (_, said) in ended.items() if len(said.strip().splitlines()) != 1}
    assert wordy == {}
    assert [command for command, (status, _) in ended.items() if not status] == []
    assert [run("application", "create")[0], run("account", "show")[0]] == [2, 2], "usage errors"


def test_a_database_that_is_locked_ends_a_command_with_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def purge(_command: object, **_options: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("oauth_bridge.management.commands.purge.Command.handle", purge)
    assert run("purge") == (1, "The database can't be used: database is locked. Try again later.")


def test_a_reader_that_ends_early_ends_the_command_without_a_word() -> None:
    script = "import subprocess, sys; subprocess.run(f'{sys.executable} manage.py diffsettings | true', shell=True)"
    assert start("-c", script).stderr == ""
