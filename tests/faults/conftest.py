"""A PostgreSQL and a Redis that tests may kill, and a small disk."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Cluster, OwnRedis, in_use, own_redis, postgresql_programs


@pytest.fixture(scope="session")
def cluster(django_db_setup: None, django_db_blocker: Any) -> Iterator[Cluster]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's programs, which Debian keeps in /usr/lib/postgresql")
    # Not in pytest's folder: PostgreSQL runs as another user, who may not read it.
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        with django_db_blocker.unblock():
            own = Cluster(programs, folder)
        yield own
        own.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_postgresql(postgresql: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A separate PostgreSQL that a test may kill. Skipped on SQLite."""
    cluster = request.getfixturevalue("cluster")  # not a parameter, which would start it before the skip
    cluster.revive()
    with in_use(cluster.url):
        yield cluster


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of the size DISK, a constant of the test's module."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.module.DISK}", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="module")
def shared_redis(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """A Redis for a server that the tests of a module share. They may kill it."""
    with own_redis(tmp_path_factory.mktemp("redis")) as own:
        yield own
