"""Two worker processes share the tests of a run (pytest-xdist). Each has a database, a Redis database and ports.

Tests that stress a server or measure one need more than that: GROUPS and ALONE.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings

WORKERS = 2
# Run by one worker, one after the other, because they share something costly or disturb each other.
GROUPS = (
    "tests/browser/",  # one Chromium
    "tests/clients/test_node.py",  # one `npm ci`
    "tests/contract/test_8_limits.py",  # one server with small limits
    "tests/faults/",  # one PostgreSQL that they may kill; load and races
    "tests/fuzz/test_schemathesis.py",  # one document
)
# They measure time or CPU, flood a server or look at all processes, so the other worker runs no test meanwhile.
ALONE = (
    "tests/faults/test_cost_of_hostile_requests.py",
    "tests/faults/test_sign_in_flood.py",
    "tests/faults/test_slow_clients.py",
    "tests/fuzz/test_header_cost.py",
    "tests/unit/test_bench.py",
)
# Below those that Linux gives to outgoing connections.
PORTS = range(20_000, 32_768, WORKERS)


def number() -> int:
    """0 or 1; 0 also where one process runs all tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS


def wanted(config: pytest.Config) -> int:
    """How many workers the run gets: none for single files, `-k`, `-s` and the long tests."""
    names_a_file = any(not Path(argument).is_dir() for argument in config.args)
    option = config.option
    needs_one = names_a_file or option.keyword or option.capture == "no" or option.markexpr != "not long"
    return 0 if needs_one else WORKERS


def group(items: list[pytest.Item]) -> None:
    """Tests in a transaction need no group: no other process sees their rows, and they run first."""
    for item in items:
        path = next((path for path in GROUPS if item.nodeid.startswith(path)), None)
        if path and not item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.xdist_group(path.strip("/").rpartition("/")[2]))


def is_alone(item: pytest.Item) -> bool:
    return item.nodeid.startswith(ALONE)


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A temporary folder of this run, the same in both workers."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def locked(path: Path, *, alone: bool) -> Iterator[None]:
    """Waits until the other worker has left its block of this path; if neither is alone, both may be in it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def use_own_redis() -> None:
    """The second worker counts in the database after that of REDIS_URL, as do the servers it starts."""
    if not number() or not os.environ.get("REDIS_URL"):
        return
    given = urlsplit(os.environ["REDIS_URL"])
    url = given._replace(path=f"/{int(given.path.strip('/') or 0) + number()}").geturl()
    os.environ["REDIS_URL"] = settings.REDIS_URL = settings.CACHES["default"]["LOCATION"] = url


def _ports() -> Iterator[int]:
    """From a random one on, so that two runs on one machine rarely ask for the same."""
    mine = [port + number() for port in PORTS]
    start = random.randrange(len(mine))
    return itertools.cycle(mine[start:] + mine[:start])


ports = _ports()
