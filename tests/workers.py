"""Two worker processes share the tests of a run (pytest-xdist). Each has a database, a Redis database and ports.

Tests that stress a server or measure one need more than that: see GROUPS and ALONE.
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
from xdist.scheduler import LoadScopeScheduling

WORKERS = 2
# Beginnings of the ids of tests that run in one worker, one after the other: they share something costly, or disturb
# each other. Tests in a transaction are in no group: they run first.
GROUPS = {
    "tests/browser/test_engines.py": "one Firefox, one WebKit",
    "tests/browser/": "one Chromium",
    "tests/clients/test_node.py": "one npm ci",
    "tests/contract/test_8_limits.py": "one server with small limits",
    "tests/faults/test_behind_nginx.py": "load",
    "tests/faults/test_clock_steps.py::test_the_clock_of_two_workers": "load",
    "tests/faults/test_concurrent_redemption.py": "load",
    "tests/faults/test_d": "load",
    "tests/faults/test_image.py": "one image",
    "tests/faults/test_killed.py": "load",
    "tests/faults/test_mail.py": "load",
    "tests/faults/test_migration_under_load.py": "load",
    "tests/faults/test_p": "load",
    "tests/faults/test_redis_down.py": "load",
    "tests/faults/test_s": "load",
    "tests/faults/test_upgrade.py": "load",
    "tests/fuzz/test_schemathesis.py": "one schema",
    "tests/programs/test_bench.py": "one benchmark",
}
# They measure time or CPU or flood a server, so the other worker runs no test meanwhile: they are the last group.
ALONE = (
    "tests/faults/test_burst.py",
    "tests/faults/test_cost_of_hostile_requests.py",
    "tests/faults/test_hostile_pictures.py::test_two_hostile_accounts",
    "tests/faults/test_rolling_reload.py::test_a_reload_under_load",
    "tests/faults/test_sign_in_flood.py",
    "tests/faults/test_slow_clients.py",
    "tests/faults/test_upgrade.py",
    "tests/fuzz/test_header_cost.py",
)
# The longest test but for the faults.
QUICKSTART = "tests/programs/test_operator.py::test_quickstart_serves_a_demo_and_runs_again"
# Below those that Linux gives to outgoing connections.
PORTS = range(20_000, 32_768, WORKERS)


def number() -> int:
    """0 or 1; 0 also where one process runs all tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS


def wanted(config: pytest.Config) -> int:
    """How many workers the run gets: none for single files, `-k`, `-s` and the long tests."""
    is_named = config.args_source is config.ArgsSource.ARGS  # not those of `testpaths`
    names_a_file = is_named and any(not Path(argument).is_dir() for argument in config.args)
    option = config.option
    is_long = not option.markexpr.startswith("not long")
    needs_one = names_a_file or option.keyword or option.capture == "no" or is_long
    return 0 if needs_one else WORKERS


class Scheduler(LoadScopeScheduling):
    """Sends all tests of a group to one worker. pytest-xdist's `loadgroup` fails with pytest 9.2 (its issue 1386)."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ALONE):
            return "alone"
        return next((group for beginning, group in GROUPS.items() if nodeid.startswith(beginning)), nodeid)


def order(items: list[pytest.Item]) -> None:
    """After the tests in transactions, begin with the longest ones, so that no worker waits for them at the end.

    Those of ALONE come last: each that comes earlier would wait for what the other worker has begun.
    """
    longest = (
        QUICKSTART,
        "tests/faults/test_image.py",
        *(beginning for beginning, group in GROUPS.items() if group == "load"),
    )

    def place(item: pytest.Item) -> int:
        if is_alone(item):
            return 3
        if item.get_closest_marker("django_db") or {"db", "transactional_db"} & set(getattr(item, "fixturenames", ())):
            return 0
        return 1 if item.nodeid.startswith(longest) else 2

    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=place)


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
    os.environ["REDIS_URL"] = settings.REDIS_URL = url
    for cache in settings.CACHES.values():
        cache["LOCATION"] = url


def _ports() -> Iterator[int]:
    """From a random one on, so that two runs on one machine rarely ask for the same."""
    mine = [port + number() for port in PORTS]
    start = random.randrange(len(mine))
    return itertools.cycle(mine[start:] + mine[:start])


ports = _ports()
