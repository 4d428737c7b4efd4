"""Fixtures for the tests of rate limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine
from django.utils import timezone


@pytest.fixture
def one_moment(fresh_counters: None) -> Iterator[None]:
    """Separate counters for the test, and a clock that stands still."""
    with time_machine.travel(timezone.now(), tick=False):
        yield
