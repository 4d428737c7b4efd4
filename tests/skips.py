"""Which tests must run, whatever a machine lacks: the integration run sets REQUIRE_ALL."""

from __future__ import annotations

import os
import re

import pytest

LACKS = re.compile(r"needs (PostgreSQL: set DATABASE_URL|Redis: set REDIS_URL) to one")


def must_run(item: pytest.Item, reason: str) -> bool:
    """Whether a skip of the test for this reason is a failure.

    With REQUIRE_ALL=1 every skip is. REQUIRE_ALL=programs is for runs on SQLite, which one on PostgreSQL with Redis
    follows: a skip for the lack of these two is none, except in tests marked `once`, which that run leaves out.
    """
    required = os.environ.get("REQUIRE_ALL")
    if required == "programs" and not item.get_closest_marker("once"):
        return not LACKS.search(reason)
    return bool(required)


def check_marks(items: list[pytest.Item]) -> None:
    """Raises UsageError: a test that is marked `once` uses the database; or one uses `db` and `committed` unmarked, so
    that the order of its fixtures decides whether its rows are rolled back.
    """
    for item in items:
        names, is_marked = getattr(item, "fixturenames", ()), item.get_closest_marker("django_db")
        if item.get_closest_marker("once") and (is_marked or "django_db_setup" in names):
            raise pytest.UsageError(f"{item.nodeid} is marked `once`, but uses the database.")
        if {"db", "committed"} <= {*names} and not is_marked:
            raise pytest.UsageError(f"{item.nodeid} must be marked with django_db.")
