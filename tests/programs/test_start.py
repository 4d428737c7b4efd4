"""gunicorn starts on a migrated database, without another step."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import requests
from django.conf import settings

from tests.contract_coverage import contract
from tests.server import serve


@contract("O.serve")
def test_gunicorn_serves_on_a_migrated_database_without_another_step(sqlite_template: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"
    with serve(tmp_path, DATABASE_URL=database, DJANGO_SETTINGS_MODULE="config.settings") as server:
        assert requests.get(f"{server.base_url}/oauth/userinfo", timeout=60).status_code == 401
        assert "Sign in" in requests.get(f"{server.base_url}/accounts/sign-in", timeout=60).text
        server.process.terminate()
        assert server.process.wait(60) == 0
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert [line["version"] for line in lines if line["message"] == "The service starts."] == [settings.VERSION]
