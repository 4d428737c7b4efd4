"""Fixtures of the tests that attack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine
from django.utils import timezone


@pytest.fixture(autouse=True)
def own_counters(fresh_counters: None) -> None:
    """Each test counts alone, because one process sends the requests of many within a minute."""


@pytest.fixture
def one_moment(own_counters: None) -> Iterator[None]:
    """Separate counters for the test, and a clock that stands still."""
    with time_machine.travel(timezone.now(), tick=False):
        yield
