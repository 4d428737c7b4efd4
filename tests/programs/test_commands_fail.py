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
        ("purge",),
        ("after-restore",),
    ],
)
def test_a_command_that_cannot_work_ends_in_one_sentence(arguments):
    done = manage(*arguments)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


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
