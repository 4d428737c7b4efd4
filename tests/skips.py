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


def check_once(items: list[pytest.Item]) -> None:
    """Raises UsageError: a test that is marked `once` uses the database."""
    for item in items:
        uses = item.get_closest_marker("django_db") or "django_db_setup" in getattr(item, "fixturenames", ())
        if uses and item.get_closest_marker("once"):
            raise pytest.UsageError(f"{item.nodeid} is marked `once`, but uses the database.")
