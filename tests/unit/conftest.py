"""Fixtures of the tests of single modules."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client

from config.logs import JsonFormatter
from oauth_bridge.maintenance import backchannel
from tests.factories import ApplicationFactory, Registered
from tests.grants import Log
from tests.pages import admin_browser, proven
from tests.peers import Receiver


@pytest.fixture(autouse=True)
def own_counters(fresh_counters: None) -> None:
    """Each test counts alone, because one process sends the requests of many within a minute."""


@pytest.fixture
def admin_client(admin_client: Client) -> Client:
    """The browser of an administrator, who has just typed the password."""
    return proven(admin_client)


@pytest.fixture
def grace(db: None) -> Client:
    """The browser of a new administrator, who has just typed the password."""
    return admin_browser()


@pytest.fixture
def event_log() -> Iterator[Log]:
    """The security events that this process writes during the test."""
    log = Log()
    logging.getLogger("events").addHandler(log)
    yield log
    logging.getLogger("events").removeHandler(log)


@pytest.fixture
def receiver(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """An address on this machine that is told of sign-outs, and may be."""
    settings.BACKCHANNEL_NETWORKS = [ip_network("127.0.0.0/8")]
    monkeypatch.setattr(backchannel, "SECONDS", 0.5)
    monkeypatch.setattr(backchannel, "_behind", {})
    with Receiver().listening() as found:
        yield found


@pytest.fixture
def told(receiver: Receiver) -> Registered:
    """An application that is told of sign-outs."""
    application: Registered = ApplicationFactory(backchannel_logout_uri=receiver.url)
    return application


@pytest.fixture
def log_output() -> Iterator[io.StringIO]:
    """What the log writes to standard error."""
    [handler] = [each for each in logging.getLogger().handlers if isinstance(each.formatter, JsonFormatter)]
    assert isinstance(handler, logging.StreamHandler)
    before = handler.setStream(output := io.StringIO())
    yield output
    handler.setStream(before)
