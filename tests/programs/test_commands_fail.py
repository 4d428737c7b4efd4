"""A command that can't do its work says so in one sentence. Contract, operator's interface."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


def manage(*arguments, **variables):
    environment = {**os.environ, "DATABASE_URL": "sqlite:///:memory:", **variables}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("application", "show", b"\xff"),
        ("application", "create", "a\nb", "--redirect-uri", "https://a.example/"),
        ("account", "deactivate", b"\xff"),
        ("application", "list"),
        ("application", "apply", "/nowhere"),
        ("application", "check", "nobody"),
        ("account", "list", "--limit", "0"),
        ("account", "unlock", "nobody@example.org"),
        ("purge",),
        ("after-restore",),
    ],
)
def test_a_command_that_cannot_work_ends_in_one_sentence(arguments):
    done = manage(*arguments)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["check", "diffsettings"])
def test_a_reader_that_ends_early_ends_the_command_without_a_word(command):
    done = subprocess.run(
        f"'{sys.executable}' manage.py {command} | true",
        shell=True,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": "sqlite:///:memory:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""


def test_a_usage_error_ends_with_2():
    assert manage("application", "create").returncode == 2
    assert manage("account", "show").returncode == 2


def test_a_name_in_other_bytes_than_utf_8_stops_the_start():
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**{name.encode(): value.encode() for name, value in os.environ.items()}, b"SERVICE_NAME": b"\xff"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith(b"SERVICE_NAME must be")
