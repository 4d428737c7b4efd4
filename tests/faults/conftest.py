"""A PostgreSQL server that tests may kill, and a server behind nginx."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Cluster, in_use, postgresql_programs
from tests.nginx import serve_behind_nginx
from tests.server import Server


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


@pytest.fixture(scope="module")
def server_behind_nginx(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a module."""
    with serve_behind_nginx(tmp_path_factory.mktemp("behind-nginx")) as server:
        yield server
