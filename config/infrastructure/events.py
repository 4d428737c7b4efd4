"""The security events and the metrics. No event contains a credential; no metric names a person or an application."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from enum import Enum
from functools import partial
from logging import INFO, WARNING
from uuid import UUID

from django.db import connection
from prometheus_client import Counter, Gauge, Histogram

from config.infrastructure import network

Member = str | int | float | UUID | None

_logger = logging.getLogger("events")


# A member is a number, an id or a short text, never a credential, a `state` or typed text.
class Event(Enum):
    """A security event: the level, message and allowed members of its log line. `person` is the person's `sub`."""

    def __init__(self, level: int, message: str, *members: str) -> None:
        self.level = level
        self.message = message
        self.members = frozenset(members)

    REFUSED = INFO, "refused", "code", "status", "cause", "client_id", "person"
    LIMIT_REACHED = INFO, "limit reached", "limit"
    HOST_NOT_SERVED = WARNING, "host not served", "host", "allowed_hosts"

    # Signing in
    SIGNED_IN = INFO, "signed in", "person", "in_known_browser"
    SECOND_FACTOR_ASKED = INFO, "second factor asked", "person"
    SECOND_FACTOR_USED = INFO, "second factor used", "person", "is_sign_in"
    RECOVERY_CODE_USED = INFO, "recovery code used", "person", "left"
    SIGNED_OUT = INFO, "signed out", "person"

    # The account
    SIGNED_UP = INFO, "signed up", "person"
    ADDRESS_CODE_SENT = INFO, "code sent to an address that is not confirmed", "person"
    ADDRESS_CONFIRMED = INFO, "address confirmed", "person", "is_new"
    PASSWORD_CHANGED = INFO, "password changed", "person"
    PASSWORD_RESET_ASKED = INFO, "password reset asked", "person"
    FACTORS_CHANGED = INFO, "second factors changed", "person", "change"
    ACCOUNT_ACTIVATED = INFO, "account activated", "person"
    ACCOUNT_DEACTIVATED = INFO, "account deactivated", "person"
    ACCOUNT_UNLOCKED = INFO, "account unlocked", "person"
    RIGHTS_CHANGED = INFO, "rights changed", "person"
    ACCOUNT_DELETED = INFO, "account deleted", "person"

    # A person and an application
    CONSENT_GIVEN = INFO, "consent given", "client_id", "person"
    DISCONNECTED = INFO, "application disconnected", "client_id", "person"
    CODE_ISSUED = INFO, "code issued", "client_id", "person"
    CODE_REDEEMED = INFO, "code redeemed", "client_id", "person"
    CODE_REPLAYED = WARNING, "code replayed, token revoked", "client_id", "person", "code_row", "age_seconds"

    # The keys of ID tokens
    SIGNING_KEY_MADE = INFO, "signing key made", "kid", "algorithm"
    SIGNING_KEY_REVOKED = WARNING, "signing key revoked", "kid"

    # An application
    APPLICATION_REGISTERED = INFO, "application registered", "client_id"
    APPLICATION_CHANGED = INFO, "application changed", "client_id", "fields"
    APPLICATION_SWITCHED_ON = INFO, "application switched on", "client_id"
    APPLICATION_SWITCHED_OFF = INFO, "application switched off", "client_id"
    APPLICATION_ACCESS_ENDED = INFO, "application access ended", "client_id"
    APPLICATION_DELETED = INFO, "application deleted", "client_id"
    SECRET_MADE = INFO, "client secret made", "client_id"
    SECRET_ENDED = INFO, "client secret ended", "client_id", "secret_row", "is_leaked"
    EXPIRED_SECRET_USED = WARNING, "expired client secret used", "client_id", "secret_row", "expired_seconds"

    # The members of an entry of the audit trail, without the changed values. `actor` is a `sub`, or "command line" and
    # the name of the operating system's user. `key` identifies the changed object, such as a client_id or a `sub`.
    ADMINISTERED = INFO, "administered", "actor", "action", "kind", "key", "fields"


# The events of the present request, except `REFUSED`, with their members; None outside of a request.
of_request: ContextVar[list[tuple[Event, dict[str, Member]]] | None] = ContextVar("events", default=None)

# Events of attempts, which are logged even if the transaction is rolled back.
_AT_ONCE = {
    Event.REFUSED,
    Event.LIMIT_REACHED,
    Event.HOST_NOT_SERVED,
    Event.CODE_REPLAYED,
    Event.EXPIRED_SECRET_USED,
}


def write(event: Event, **members: Member) -> None:
    """Log and count the event, without None members. Only events in _AT_ONCE are logged before a transaction ends."""
    if not event.members.issuperset(members):
        raise ValueError(f"{event.name} has no {sorted(members.keys() - event.members)}.")
    if event not in _AT_ONCE and connection.in_atomic_block:
        connection.on_commit(partial(_write, event, members))
    else:
        _write(event, members)


def _write(event: Event, members: dict[str, Member]) -> None:
    written = of_request.get()
    if written is not None and event is not Event.REFUSED:
        written.append((event, members))
    name = event.name.lower()
    EVENTS.labels(name).inc()
    line: dict[str, str | int | float | None] = {"event": name}
    for member, each in members.items():
        if each is not None:
            line[member] = str(each) if isinstance(each, UUID) else each
    if address := network.of_request.get():
        line["address"] = address
    _logger.log(event.level, event.message, extra=line)


# Metrics -------------------------------------------------------------------------------------------------------------

ANSWERS = Histogram(
    "delegated_http_request_duration_seconds",
    "Time to answer.",
    ["method", "route", "status"],
    # User info takes about one millisecond, and hashing a password takes twenty to thirty.
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
REFUSALS = Counter("delegated_refusals", "Answers that are errors.", ["route", "error", "code"])
EVENTS = Counter("delegated_events", "Security events.", ["event"])
PASSWORD_WAIT = Histogram(
    "delegated_password_wait_seconds",
    "Wait for the turn to hash a password.",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def _sum(name: str, text: str) -> Gauge:
    return Gauge(f"delegated_{name}", text, multiprocess_mode="livesum")


def _newest(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"delegated_{name}", text, labels, multiprocess_mode="livemostrecent")


IN_FLIGHT = _sum("http_requests_in_flight", "Requests that are answered now. Each occupies a thread.")
THREADS = _sum("threads", "Threads that answer requests.")
REDIS_AWAY = _sum("redis_away_workers", "Workers that go on without Redis, because it does not answer.")
BUILD_INFO = _newest("build_info", "1. The labels are the versions.", "version", "python")
DATABASE_UP = _newest("database_up", "1 while the database answers, else 0.")
QUEUE_WAITING = _newest("queue_waiting", "Rows that wait.", "queue")
QUEUE_RETRIED = _newest("queue_retried", "Rows that wait after an attempt has failed.", "queue")
QUEUE_OVERDUE = _newest("queue_overdue_seconds", "How long the oldest row that is due waits.", "queue")
PURGE_AGE = _newest("purge_age_seconds", "Time since the last complete purge.")
SIGNING_KEY_AGE = _newest("signing_key_age_seconds", "Age of the newest key of ID tokens.", "algorithm")
