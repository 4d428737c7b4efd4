"""A PostgreSQL that tests may kill."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Cluster, in_use, postgresql_programs


@pytest.fixture(scope="session")
def cluster(django_db_setup: None, django_db_blocker: Any) -> Iterator[Cluster]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's programs, which Debian keeps in /usr/lib/postgresql")
    # Not in pytest's folder: PostgreSQL runs as another user, who may not read it.
    with tempfile.TemporaryDirectory(prefix="postgresql-", ignore_cleanup_errors=True) as folder:
        with django_db_blocker.unblock():
            own = Cluster(programs, Path(folder))
        yield own
        own.kill()


@pytest.fixture
def own_postgresql(postgresql: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A separate PostgreSQL that a test may kill. Skipped on SQLite."""
    cluster = request.getfixturevalue("cluster")  # not a parameter, which would start it before the skip
    cluster.revive()
    with in_use(cluster.url):
        yield cluster
