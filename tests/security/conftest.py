"""Fixtures for the tests of rate limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine
from django.core.cache import cache
from django.utils import timezone


@pytest.fixture
def one_moment() -> Iterator[None]:
    """Separate counters for the test, and no window that ends during it."""
    cache.clear()
    with time_machine.travel(timezone.now(), tick=False):
        yield
