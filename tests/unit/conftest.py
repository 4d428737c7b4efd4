"""Fixtures of the tests of single modules."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from config.logs import JsonFormatter
from tests.grants import Log
from tests.pages import admin_browser, proven

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def admin_client(admin_client: Client) -> Client:
    return proven(admin_client)


@pytest.fixture
def grace(db: None) -> Client:
    return admin_browser()


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    """A clock that stands still at START until it is moved."""
    with time_machine.travel(START, tick=False) as clock:
        yield clock


@pytest.fixture
def event_log() -> Iterator[Log]:
    """The security events that this process writes during the test."""
    log = Log()
    logging.getLogger("events").addHandler(log)
    yield log
    logging.getLogger("events").removeHandler(log)


@pytest.fixture
def log_output() -> Iterator[io.StringIO]:
    [handler] = [each for each in logging.getLogger().handlers if isinstance(each.formatter, JsonFormatter)]
    assert isinstance(handler, logging.StreamHandler)
    before = handler.setStream(output := io.StringIO())
    yield output
    handler.setStream(before)
