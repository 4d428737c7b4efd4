"""Every other way in which a program does not start, or starts on an unusual host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.contract_coverage import contract
from tests.programs.test_start import GUNICORN, start
from tests.server import ROOT, environment, free_port
from tests.unit.test_config_environment import settings_with


def test_a_folder_that_cannot_be_made_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_with(monkeypatch, DATABASE_URL=f"sqlite:///{tmp_path}/file/db.sqlite3")
    sentence = f"DATABASE_URL: the folder of {tmp_path}/file/db.sqlite3 cannot be made (File exists)."
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_URL", "redis://127.0.0.1:6379/0?bogus=1"),
        ("DATABASE_URL", "postgres://service@127.0.0.1/service?bogus=1"),
        ("DATABASE_URL", "sqlite:////tmp"),
    ],
)
def test_an_option_nobody_knows_stops_the_start(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        settings_with(monkeypatch, **{name: value})


def test_a_name_in_other_bytes_than_utf_8_stops_the_start() -> None:
    environ = {name.encode(): value.encode() for name, value in os.environ.items()} | {b"SERVICE_NAME": b"\xff"}
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=120, check=False)
    assert done.returncode != 0
    assert done.stderr.startswith(b"SERVICE_NAME must be")


@contract("O.workers")
@pytest.mark.parametrize(("variables", "arguments"), [({"WEB_CONCURRENCY": "2"}, []), ({}, ["-w", "2"])], ids=str)
def test_several_workers_need_redis(
    committed: None, tmp_path: Path, variables: dict[str, str], arguments: list[str]
) -> None:
    env = {**environment(tmp_path, **variables, BIND=f"127.0.0.1:{free_port()}"), "REDIS_URL": ""}
    command = [sys.executable, *GUNICORN, *arguments]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("More than one worker needs REDIS_URL")
    assert "Traceback" not in ended.stderr


def test_an_older_python_is_told_which_one_is_needed() -> None:
    """By the first command of both lines in README.md, before pip could say that it finds no version of Django."""
    ended = start("-c", "import sys; sys.version_info = (3, 10, 13, 'final', 0); import manage")
    assert ended.returncode == 1
    assert ended.stderr == (
        "Python 3.11 or newer is needed, and this is 3.10. Install it and name it, such as python3.12.\n"
    )
    lines = re.findall(r"^python3 .*", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert len(lines) == 2
    assert all(line.startswith("python3 -c 'import manage' && ") for line in lines)


def test_a_python_without_django_is_told_where_it_is() -> None:
    ended = start("-S", "manage.py", "check")
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


def test_it_starts_from_any_folder(committed: None, tmp_path: Path) -> None:
    env = environment(tmp_path, BIND=f"127.0.0.1:{free_port()}")
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "config" / "gunicorn.py"), "--check-config"]
    checked = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stderr


@contract("O.deploy")
def test_a_deployment_over_http_ends_check_deploy() -> None:
    """Each check: tests/unit/test_config_checks.py."""
    ended = start("manage.py", "check", "--deploy", AUTH_URL="http://auth.example.com")
    assert ended.returncode == 1
    assert "config.E001" in ended.stderr
    assert "AUTH_URL" in ended.stderr
