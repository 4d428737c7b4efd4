"""The upgrade and the way back, which tests/faults tests on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.databases import Cluster, OwnRedis, postgresql_programs
from tests.server import ROOT

TEST = "tests/faults/test_upgrade.py"


def has_passed(folder: Path) -> bool:
    """Runs the test on a PostgreSQL and a Redis of its own."""
    folder.mkdir()
    programs = postgresql_programs()
    assert programs
    cluster, redis = Cluster(programs, folder), OwnRedis("redis-server", folder)
    try:
        cluster.administer("ALTER ROLE service CREATEDB")
        variables = {**os.environ, "DATABASE_URL": cluster.url, "REDIS_URL": redis.url, "REQUIRE_ALL": "1"}
        command = [sys.executable, "-m", "pytest", TEST, "-n0", "-q", "-rP", "-p", "no:cacheprovider"]
        return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode == 0
    finally:
        redis.kill()
        cluster.kill()
