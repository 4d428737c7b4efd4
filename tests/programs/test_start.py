"""gunicorn starts on a migrated database, without another step and from any folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import requests
from django.conf import settings

from tests.contract_coverage import contract
from tests.peers import wait_until
from tests.server import ROOT, free_port


@contract("O.serve")
def test_gunicorn_serves_on_a_migrated_database_without_another_step(sqlite_template: Path, tmp_path: Path) -> None:
    port, log_path = free_port(), tmp_path / "log"
    base_url = f"http://localhost:{port}"
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= {"DATABASE_URL": f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}", "BIND": f"127.0.0.1:{port}"}
    command = [sys.executable, "-m", "gunicorn", "-c", ROOT / "config" / "gunicorn.py", "config.wsgi"]
    with log_path.open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)

    def is_up() -> bool:
        assert process.poll() is None, log_path.read_text()
        try:
            return requests.get(f"{base_url}/oauth/userinfo", timeout=60).status_code == 401
        except requests.ConnectionError:
            return False

    try:
        wait_until(is_up, seconds=120)
        assert "Sign in" in requests.get(f"{base_url}/accounts/sign-in", timeout=60).text
    finally:
        process.terminate()
        assert process.wait(60) == 0
    lines = [json.loads(line) for line in log_path.read_text().splitlines()]
    assert [line["version"] for line in lines if line["message"] == "The service starts."] == [settings.VERSION]
