"""Write counts, sign-in records and first profile reads in a thread, so that no request waits. D24.

A thread of each worker writes the waiting entries about once a second. A crash loses the entries of the last second.
The same thread records the codes that no application exchanged, because no request shows this failure. Every few
seconds, it proves that the database can be written: readiness reads the result.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import Error, connection, transaction
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from accounts.models import User
from config.infrastructure.sql import adapted
from config.infrastructure.worker import Worker
from oauth_bridge.activity import budget
from oauth_bridge.activity.budget import Kind
from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.credentials import issued_codes
from oauth_bridge.credentials.issued_codes import ProfileRead
from oauth_bridge.models import WriteProof
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step

FLUSH_SECONDS = 1.0
# While the database is unreachable, at most this number of entries of each kind is kept. Further entries are lost.
MOST_WAITING = 10_000
_HOUR_SECONDS = 3600
# The thread looks for expired codes this often, at first for those of the last day. One statement claims MOST_CLAIMED.
CLAIM_EVERY = timedelta(seconds=20)
UNRECORDED_FOR = timedelta(days=1)
MOST_CLAIMED = 500
PROOF_SECONDS = 5.0
# The database counts as read-only if the latest proof is older. A proof that waits for the database takes this long.
PROOF_AGE_SECONDS = 15.0

_ADD = f"""
    INSERT INTO {ActivityCount._meta.db_table} (hour, client_id, step, outcome, cause, number)
    VALUES (%(hour)s, %(client_id)s, %(step)s, %(outcome)s, %(cause)s, %(number)s)
    ON CONFLICT (client_id, hour, step, outcome, cause) DO UPDATE
       SET number = {ActivityCount._meta.db_table}.number + excluded.number
"""  # noqa: S608 - the name of a table only

_PROVE = f"""
    INSERT INTO {WriteProof._meta.db_table} (id, written_at) VALUES (1, %(now)s)
    ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at
"""  # noqa: S608 - the name of a table only


# The key of a count: client_id, number of hours since 1970, step, outcome, cause. Making this tuple takes a quarter of
# the time of making an object with a datetime.
Key = tuple[str, int, Step, Outcome, str]


class Waiting:
    """The unwritten entries of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts: Counter[Key] = Counter()
        self.records: list[ActivityRecord] = []
        self.reads: dict[ProfileRead, tuple[str, datetime]] = {}  # the client_id and the time
        self.seen: dict[ProfileRead, None] = {}  # the latest reads, the oldest first

    def take(self) -> tuple[Counter[Key], list[ActivityRecord], dict[ProfileRead, tuple[str, datetime]]]:
        with self.lock:
            taken = self.counts, self.records, self.reads
            self.counts, self.records, self.reads = Counter(), [], {}
        return taken

    def put_back(
        self, counts: Counter[Key], records: list[ActivityRecord], reads: dict[ProfileRead, tuple[str, datetime]]
    ) -> None:
        with self.lock:
            self.counts.update(counts)
            self.records = (records + self.records)[:MOST_WAITING]
            self.reads = reads | self.reads


_waiting = Waiting()
_worker: Worker | None = None
_claimed_at: datetime | None = None


def count(at: datetime, client_id: str, step: Step, outcome: Outcome, cause: str = "") -> None:
    """Add one to the count of the hour."""
    counted = (client_id, _hour_of(at), step, outcome, cause)
    with _waiting.lock:
        counts = _waiting.counts
        if len(counts) < MOST_WAITING:
            counts[counted] = counts.get(counted, 0) + 1


def add_later(record: ActivityRecord) -> None:
    """Keep the record for the thread, which writes it within about a second. A success is also counted."""
    if record.outcome == Outcome.SUCCEEDED:
        count(record.at, record.client_id, Step(record.step), Outcome.SUCCEEDED)
    with _waiting.lock:
        if len(_waiting.records) < MOST_WAITING:
            _waiting.records.append(record)


def note_profile_read(attempt: UUID, person_id: UUID, client_id: str, at: datetime) -> None:
    """Keep the profile read for the thread, which stores and counts only the first read of an attempt."""
    read = ProfileRead(attempt, person_id)
    if read in _waiting.seen:
        return
    with _waiting.lock:
        _waiting.seen[read] = None
        if len(_waiting.seen) > MOST_WAITING:
            del _waiting.seen[next(iter(_waiting.seen))]
        if len(_waiting.reads) < MOST_WAITING:
            _waiting.reads.setdefault(read, (client_id, at))


def flush() -> None:
    """Write all entries. After a database Error, the entries are kept."""
    counts, records, reads = _waiting.take()
    if counts or records or reads:
        try:
            _write(Counter(counts), records, reads)
        except Error:
            _waiting.put_back(counts, records, reads)
            raise


def record_never_exchanged(since: datetime) -> bool:
    """Record and count codes that were issued after `since` and expired unredeemed. Returns whether more may remain.

    Possible causes: the callback did not answer, the application lost its `state`, or a firewall stopped the exchange.
    """
    with transaction.atomic():
        claimed, codes = issued_codes.claim_never_exchanged(since, MOST_CLAIMED)
    failed: dict[str, Any] = {"step": Step.EXCHANGE, "outcome": Outcome.FAILED, "cause": NEVER_EXCHANGED}
    for client_id, person_id, attempt, at in codes:
        count(at, client_id, **failed)
        if budget.has_room(client_id, Kind.PERSON, str(person_id)):
            add_later(ActivityRecord(at=at, client_id=client_id, person_id=person_id, attempt=attempt, **failed))
    flush()
    return claimed == MOST_CLAIMED


def _write(counts: Counter[Key], records: list[ActivityRecord], reads: dict[ProfileRead, tuple[str, datetime]]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        # The locks wait for deletions that have begun, so no record outlives its person.
        people = User.objects.filter(pk__in={each.person_id for each in records if each.person_id}).order_by("pk")
        present = set(people.select_for_update(no_key=True).values_list("pk", flat=True)) if records else set()
        records = [each for each in records if each.person_id is None or each.person_id in present]
        for read in issued_codes.note_profile_reads({read: at for read, (_, at) in reads.items()}) if reads else ():
            client_id, at = reads[read]
            counts[client_id, _hour_of(at), Step.PROFILE, Outcome.SUCCEEDED, ""] += 1
        for record in records:  # a transaction that was rolled back may have set it
            record.pk = None
        if records:  # PostgreSQL takes at most 65,535 parameters in a statement
            ActivityRecord.objects.bulk_create(records, batch_size=1_000)
        for counted in sorted(counts):  # in a fixed order, so that two workers do not deadlock
            client_id, hour, step, outcome, cause = counted
            at = datetime.fromtimestamp(hour * _HOUR_SECONDS, UTC)
            values = {"client_id": client_id, "hour": at, "step": step.value, "outcome": outcome.value, "cause": cause}
            cursor.execute(_ADD, adapted({**values, "number": counts[counted]}))


def _hour_of(at: datetime) -> int:
    return int(at.timestamp()) // _HOUR_SECONDS


class Proof:
    """Whether this process could write to the database, and when it last found out."""

    def __init__(self) -> None:
        self.is_known = threading.Event()
        self.succeeded_at: float | None = None  # time.monotonic(); None after a failure

    def is_recent(self, seconds: float) -> bool:
        return self.succeeded_at is not None and time.monotonic() - self.succeeded_at < seconds

    def renew(self) -> None:
        """Write one row if the latest proof is PROOF_SECONDS old. Raises Error: the database can't be written."""
        if self.is_recent(PROOF_SECONDS):
            return
        try:
            with connection.cursor() as cursor:
                cursor.execute(_PROVE, adapted({"now": timezone.now()}))
            self.succeeded_at = time.monotonic()
        except Error:
            self.succeeded_at = None
            connection.close()  # an SQLite file that was opened read-only stays read-only on that connection
            raise
        finally:
            self.is_known.set()


_proof = Proof()


def is_writable() -> bool:
    """Return whether the thread of this worker could write to the database in the last PROOF_AGE_SECONDS.

    In a process without the thread, as in development, the caller writes, at most once in PROOF_SECONDS.
    """
    if _worker is None:
        with suppress(Error):
            _proof.renew()
    else:
        _proof.is_known.wait(FLUSH_SECONDS)  # the worker has just started
    return _proof.is_recent(PROOF_AGE_SECONDS)


def _work() -> bool:
    global _claimed_at
    _proof.renew()
    flush()
    now = timezone.now()
    if _claimed_at and now < _claimed_at + CLAIM_EVERY:
        return False
    lifetime = timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
    # The other workers' clocks may differ by some seconds.
    if record_never_exchanged((_claimed_at - CLAIM_EVERY if _claimed_at else now - UNRECORDED_FOR) - lifetime):
        return True
    _claimed_at = now
    return False


def start() -> None:
    """Start the thread that writes the entries. Each worker of the web server calls this function."""
    global _worker
    _worker = Worker("activity", _work, FLUSH_SECONDS)
    _worker.start()


def stop() -> None:
    """End the thread and write all entries. If the database is unreachable, the entries are lost."""
    if _worker:
        _worker.stop()
        with suppress(Error):
            flush()
