"""The programs start: gunicorn, manage.py and its quickstart. A malformed variable ends each with one sentence."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.contract_coverage import contract
from tests.server import ROOT, free_port
from tests.smtp import wait_until

GUNICORN = ("-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi")


def bare(**variables: str) -> dict[str, str]:
    """An environment with no variable of the service but these."""
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | variables


def start(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program that ends by itself."""
    env = bare(**{"DATABASE_URL": "sqlite:///:memory:", **variables})
    options = {"capture_output": True, "text": True, "timeout": 120, "check": False}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, **options)  # type: ignore[call-overload,no-any-return]


@contract("O.serve")
def test_gunicorn_serves_on_a_migrated_database_without_another_step(sqlite_template: Path, tmp_path: Path) -> None:
    port, log_path = free_port(), tmp_path / "log"
    base_url = f"http://localhost:{port}"
    database = f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"
    env = bare(DATABASE_URL=database, BASE_URL=base_url, BIND=f"127.0.0.1:{port}")
    with log_path.open("w") as log:
        process = subprocess.Popen([sys.executable, *GUNICORN], cwd=ROOT, env=env, stdout=log, stderr=log)

    def is_ready() -> bool:
        assert process.poll() is None, log_path.read_text()
        try:
            return bool(requests.get(f"{base_url}/health/ready", timeout=60).json()["database"] == "ok")
        except requests.ConnectionError:
            return False

    try:
        wait_until(is_ready, seconds=120)
        sheet = requests.get(f"{base_url}/static/css/site.css", timeout=60)
        assert (sheet.status_code, sheet.headers["Content-Type"].partition(";")[0]) == (200, "text/css")
        assert "Sign in" in requests.get(f"{base_url}/accounts/sign-in", timeout=60).text
    finally:
        process.terminate()
        assert process.wait(60) == 0
    first = json.loads(log_path.read_text().splitlines()[0])
    assert (first["message"], first["version"]) == ("The service starts.", settings.VERSION)


@contract("O.malformed")
@pytest.mark.parametrize("command", [GUNICORN, ("manage.py", "migrate")], ids=["gunicorn", "manage.py"])
def test_a_malformed_variable_ends_the_start_with_the_sentence_alone(command: tuple[str, ...]) -> None:
    """Each variable: tests/unit/test_config_environment.py."""
    ended = start(*command, DATABASE_URL="mysql://user:hidden@host/name")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("DATABASE_URL must be ")
    assert ended.stderr.count("\n") == 1
    assert "hidden" not in ended.stderr


@contract("O.quickstart")
def test_quickstart_names_a_port_in_use_before_it_touches_anything(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = ("--port", str(free_port()), "--demo-port", str(port))
        ended = start("manage.py", "quickstart", *ports, DATABASE_URL=f"sqlite:///{tmp_path}/db.sqlite3")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"CommandError: Port {port} can't be used")
    assert "--demo-port" in ended.stderr
    assert list(tmp_path.iterdir()) == []
