"""The benchmark starts and measures each operation, and it fills no database that somebody uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import rows
from tests.factories import PersonFactory
from tests.server import ROOT, environment


@pytest.mark.django_db
def test_a_database_in_which_somebody_lives_is_not_filled(postgresql: None) -> None:
    PersonFactory(email="alice@example.com")
    with pytest.raises(rows.NotHere, match="Somebody lives in this database"):
        rows.fill(people=10, tokens=10, codes=10)


def test_every_operation_is_measured_beside_the_floor(postgresql: None, tmp_path: Path) -> None:
    arguments = ["--rounds=1", "--operations=8", "--race=1", f"--json={tmp_path}/figures"]
    command = [sys.executable, "-m", "tests.bench", *arguments]
    variables = environment(tmp_path)
    ended = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=600, check=False)
    if "is not installed" in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads((tmp_path / "figures").read_text())
    assert {each["phase"]: each["done"] for each in figures["measured"]}.keys() == {
        "authorize",
        "token",
        "userinfo",
        "flow",
        "select",
    }
