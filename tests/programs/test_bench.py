"""The benchmark starts and measures each operation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.server import ROOT


def test_every_operation_is_measured_beside_the_floor(postgresql: None) -> None:
    command = [sys.executable, "-m", "tests.bench", "--rounds=1", "--operations=8"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if "is not installed" in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    rows = [line.partition(" ")[0] for line in ended.stdout.splitlines()]
    assert rows[1:6] == ["floor", "authorize", "token", "userinfo", "flow"]
