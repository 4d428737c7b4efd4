"""A command that can't do its work says so in one sentence. Contract, operator's interface."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import oauth2_provider
import pytest
from django.core.management import find_commands
from django.db import OperationalError

import manage
from tests.databases import in_use
from tests.server import ROOT

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(committed: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """`run("purge")` runs the command on a database without tables, and returns its status and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["manage.py", *arguments])
        errors = io.StringIO()
        with redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            manage.main()
        status = ended.value.code
        if isinstance(status, str):  # Python prints it
            return 1, errors.getvalue() + status
        return int(status or 0), errors.getvalue()

    with in_use("sqlite:///:memory:"):
        yield run


def test_a_command_that_cannot_work_ends_in_one_sentence(run: Run) -> None:
    commands = [
        ("application", "show", "\udcff"),  # a byte that is not UTF-8
        ("application", "create", "a\nb", "--redirect-uri", "https://a.example/"),
        ("application", "list"),
        ("application", "apply", "/nowhere"),
        ("application", "check", "nobody"),
        ("account", "list", "--limit", "0"),
        ("account", "unlock", "nobody@example.org"),
        ("purge",),
        ("after-restore",),
        *((name, "--help") for name in manage.INSTEAD),
    ]
    ended = {command: run(*command) for command in commands}
    wordy = {command: said for command, (_, said) in ended.items() if len(said.strip().splitlines()) != 1}
    assert wordy == {}
    assert [command for command, (status, _) in ended.items() if not status] == []
    assert [run("application", "create")[0], run("account", "show")[0]] == [2, 2], "usage errors"


def test_a_command_of_a_library_that_would_break_a_rule_names_the_one_to_use() -> None:
    toolkit = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    assert {*manage.INSTEAD} == {"changepassword", *toolkit}


def test_a_database_that_is_locked_ends_a_command_with_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def purge(_command: object, **_options: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("oauth_bridge.management.commands.purge.Command.handle", purge)
    assert run("purge") == (1, "The database can't be used: database is locked. Try again later.")


def test_a_reader_that_ends_early_ends_the_command_without_a_word() -> None:
    command = f"'{sys.executable}' manage.py diffsettings | true"
    env = {**os.environ, "DATABASE_URL": "sqlite:///:memory:"}
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
