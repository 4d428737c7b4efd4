"""Count the steps of sign-ins in the activity log, and limit the number of records.

Hourly limits apply to the records of each caller, and of each kind of caller, at an application. Beyond a limit,
requests are only counted. So refused requests neither fill the table nor stop records of other kinds of callers.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.db import Error, connection, transaction
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure import rate_limits
from config.infrastructure.network import site_of
from config.infrastructure.sql import adapted
from config.infrastructure.worker import Worker
from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.credentials import code_history
from oauth_bridge.credentials.code_history import ProfileRead
from oauth_bridge.models import WriteProof
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step

FLUSH_SECONDS = 1.0
# While the thread waits for the database, at most this number of entries of each kind is kept. Others are lost.
MOST_WAITING = 10_000
# How often the thread looks for codes that expired unredeemed; the first time, for those of the last
# UNRECORDED_FOR. One call claims at most MOST_CLAIMED.
CLAIM_EVERY = timedelta(seconds=20)
UNRECORDED_FOR = timedelta(days=1)
MOST_CLAIMED = 500
PROOF_SECONDS = 5.0

_ADD_COUNT = f"""
    INSERT INTO {ActivityCount._meta.db_table} (hour, client_id, step, outcome, cause, number)
    VALUES (%(hour)s, %(client_id)s, %(step)s, %(outcome)s, %(cause)s, %(number)s)
    ON CONFLICT (client_id, hour, step, outcome, cause) DO UPDATE
       SET number = {ActivityCount._meta.db_table}.number + excluded.number
"""  # noqa: S608 - the name of a table only
# The key of a count: client_id, hour, step, outcome, cause.
Key = tuple[str, datetime, Step, Outcome, str]
# Kinds of callers, each with its own limits. "proven": the caller sent a secret, code or token of this service.
Kind = Literal["stranger", "person", "proven"]


def has_room(client_id: str, kind: Kind, caller: str) -> bool:
    """Count one more record against the hourly limits. Return False if a limit is full.

    `caller`: a person's ID or an IP address (an IPv6 /48 network is one caller). `client_id`: "" if unknown.
    """
    of_all = rate_limits.Counter("records_of_kind", f"{client_id} {kind}")
    own = rate_limits.Counter("records_of_caller", f"{client_id} {kind} {site_of(caller) or caller}")
    # New records never replace old records, because a flood could then remove earlier records.
    # While the limit of all callers is full, no counters of new callers are made.
    return not (rate_limits.exceeded(of_all) or rate_limits.count(own, of_all))


class Waiting:
    def __init__(self) -> None:
        self.counts: Counter[Key] = Counter()
        self.records: list[ActivityRecord] = []
        self.reads: dict[ProfileRead, tuple[str, datetime]] = {}  # the client_id and the time


_lock = threading.Lock()
_waiting = Waiting()
_worker: Worker | None = None
_claimed_at: datetime | None = None
_proved_at: float | None = None  # time.monotonic(); None after a failure


def count(at: datetime, client_id: str, step: Step, outcome: Outcome, cause: str = "") -> None:
    with _lock:
        if len(_waiting.counts) < MOST_WAITING:
            _waiting.counts[client_id, _hour_of(at), step, outcome, cause] += 1


def add_later(record: ActivityRecord) -> None:
    """Queue the record for the thread of `start`. A full queue drops the record. Count the step if it succeeded."""
    if record.outcome == Outcome.SUCCEEDED:
        count(record.at, record.client_id, Step(record.step), Outcome.SUCCEEDED)
    with _lock:
        if len(_waiting.records) < MOST_WAITING:
            _waiting.records.append(record)


def note_profile_read(attempt: UUID, person_id: UUID, client_id: str, at: datetime) -> None:
    """Queue a profile read. The thread of `start` stores and counts only the first read of each attempt and person."""
    with _lock:
        if len(_waiting.reads) < MOST_WAITING:
            _waiting.reads.setdefault((attempt, person_id), (client_id, at))


def flush() -> None:
    """Write all waiting entries in one transaction. If this raises django.db.Error, the entries are lost."""
    global _waiting
    with _lock:
        taken, _waiting = _waiting, Waiting()
    if not (taken.records or taken.counts or taken.reads):
        return
    with transaction.atomic(), connection.cursor() as cursor:
        ActivityRecord.objects.bulk_create(taken.records)
        times = {read: at for read, (_, at) in taken.reads.items()}
        for read in code_history.note_profile_reads(times) if times else ():
            client_id, at = taken.reads[read]
            taken.counts[client_id, _hour_of(at), Step.PROFILE, Outcome.SUCCEEDED, ""] += 1
        for key, number in sorted(taken.counts.items()):  # in a fixed order, so that two workers do not deadlock
            client_id, hour, step, outcome, cause = key
            values = {"client_id": client_id, "hour": hour, "step": step.value, "outcome": outcome.value}
            cursor.execute(_ADD_COUNT, adapted({**values, "cause": cause, "number": number}))


def _hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def record_never_exchanged(since: datetime) -> bool:
    """Count a batch of expired codes with no known exchange. Record each if `has_room`. Return whether it was full."""
    failed: dict[str, Any] = {"step": Step.EXCHANGE, "outcome": Outcome.FAILED, "cause": NEVER_EXCHANGED}
    with transaction.atomic():
        claimed, codes = code_history.claim_never_exchanged(since, MOST_CLAIMED)
        for code in codes:
            count(code.expires_at, code.client_id, **failed)
            if has_room(code.client_id, "person", str(code.user_id)):
                known = {"client_id": code.client_id, "person_id": code.user_id, "attempt": code.attempt}
                ActivityRecord.objects.create(at=code.expires_at, **known, **failed)
    return claimed == MOST_CLAIMED


def is_writable() -> bool:
    """Return whether the database can be written. A successful test is not repeated for PROOF_SECONDS."""
    global _proved_at
    now = time.monotonic()
    if _proved_at is None or now - _proved_at >= PROOF_SECONDS:
        try:
            WriteProof(pk=1, written_at=timezone.now()).save()
        except Error:
            _proved_at = None
            connection.close()  # an SQLite file that was opened read-only stays read-only on that connection
            return False
        _proved_at = now
    return True


def _work() -> bool:
    global _claimed_at
    flush()
    now = timezone.now()
    if not _claimed_at or now >= _claimed_at + CLAIM_EVERY:
        lifetime = timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
        # The other workers' clocks may differ by some seconds.
        if record_never_exchanged((_claimed_at - CLAIM_EVERY if _claimed_at else now - UNRECORDED_FOR) - lifetime):
            return True
        _claimed_at = now
    return False


def start() -> None:
    """Start the thread that runs `_work` about once a second. A crash of the process loses the waiting entries."""
    global _worker
    _worker = Worker("activity", _work, FLUSH_SECONDS)
    _worker.start()


def stop() -> None:
    if _worker:
        _worker.stop()
        with suppress(Error):
            flush()
