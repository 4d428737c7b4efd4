"""Fixtures of the tests of single modules."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.events import Log


@pytest.fixture
def event_log() -> Iterator[Log]:
    """The security events that this process writes during the test."""
    log = Log()
    logging.getLogger("events").addHandler(log)
    yield log
    logging.getLogger("events").removeHandler(log)
