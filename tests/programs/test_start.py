"""A malformed variable ends each program with one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


def start(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**kept, "DATABASE_URL": "sqlite:///:memory:", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"), [("BASE_URL", "https://api.example.com/"), ("DATABASE_URL", "mysql://u:hidden@h/n")]
)
@pytest.mark.parametrize(
    "command",
    [("manage.py", "check"), ("manage.py", "migrate"), ("-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi")],
    ids=lambda command: command[-1],
)
def test_the_start_ends_with_the_sentence_alone(name: str, value: str, command: tuple[str, ...]) -> None:
    ended = start(*command, **{name: value})
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{name} must be ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_a_folder_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = start("manage.py", "check", DATABASE_URL=f"sqlite:///{tmp_path}/file/db.sqlite3")
    assert ended.returncode == 1
    assert ended.stderr == f"DATABASE_URL: the folder of {tmp_path}/file/db.sqlite3 cannot be made (File exists).\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_URL", "redis://127.0.0.1:6379/0?bogus=1"),
        ("DATABASE_URL", "postgres://service@127.0.0.1/service?bogus=1"),
        ("DATABASE_URL", "sqlite:////tmp"),
    ],
)
def test_an_option_nobody_knows_stops_the_start(name: str, value: str) -> None:
    done = start("manage.py", "check", **{name: value})
    assert done.returncode != 0
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_an_older_python_is_told_which_one_is_needed() -> None:
    """By the first command of both lines in README.md, before pip could say that it finds no version of Django."""
    program = "import sys; sys.version_info = (3, 10, 13, 'final', 0); import manage"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "Python 3.11 or newer is needed, and this is 3.10. Install it and name it, such as python3.12.\n"
    )
    lines = re.findall(r"^python3 .*", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert len(lines) == 2
    assert all(line.startswith("python3 -c 'import manage' && ") for line in lines)


def test_a_python_without_django_is_told_where_it_is() -> None:
    ended = subprocess.run(
        [sys.executable, "-S", "manage.py", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert (
        ended.stderr == "Django is not installed for this Python: run .venv/bin/python manage.py, as README.md says.\n"
    )


def test_a_host_without_the_database_of_time_zones_serves_times() -> None:
    """PYTHONTZPATH names no folder, so only the package tzdata is left."""
    program = """
import django
django.setup()
from django.utils import timezone
print(timezone.localtime(timezone.now()).tzname())
"""
    ended = start("-c", program, DJANGO_SETTINGS_MODULE="config.settings", PYTHONTZPATH="")
    assert (ended.stdout, ended.returncode) == ("UTC\n", 0)


def test_a_worker_reads_the_settings_anew() -> None:
    """A worker inherits the modules that its server has loaded, so the server must not keep these."""
    program = """
import runpy, sys
runpy.run_path("config/gunicorn.py")
print({"config.settings", "config.limits_and_lifetimes"} & set(sys.modules))
"""
    ended = start("-c", program)
    assert (ended.stdout, ended.returncode) == ("set()\n", 0)
