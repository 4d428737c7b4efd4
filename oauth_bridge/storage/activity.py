"""Write records of the activity log within a budget. D24; specification 7.

A flood of refused requests must neither fill the table nor hide the records of other callers. So each application has a
fixed number of slots, and each slot allows a limited number of records per hour. All unknown client_ids share the slots
of the empty client_id. The caller determines the slot:

- The slot of an unknown caller depends on a keyed hash of the caller's network. An IPv6 /48 network counts as one
  network.
- A signed-in person's slot depends on a keyed hash of the person.
- All callers that sent a valid secret, code or token share one slot. All administrators share another slot.
- Callers refused by a rate limit have their own group of slots. In a flood, each of these slots allows one record per
  hour.
- Callers refused by a busy service have another group of slots. Each of these slots always allows one record per hour.

Usually a slot allows many records, so that a developer with many failures finds a record of each failure. After more
than FLOOD records of a group in an hour, each slot of the group allows fewer records. Requests beyond the budget are
only counted. New records never replace old records. Otherwise, a flood could remove earlier records.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.encoding import force_bytes

from accounts.models import User
from config.infrastructure.network import site_of
from config.infrastructure.sql import fetch_one, is_postgresql
from oauth_bridge.activity_models import ActivityBudget, ActivityRecord, Outcome, Step

FLOOD = 500
GENEROUS, NARROW = 60, 8
MOST_OF_AN_ATTEMPT = 20
SLOTS = 64
_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Group:
    """Callers that share a budget of `slots` slots. `first` is the number of the first slot.

    A slot allows `generous` records per hour. After more than FLOOD records of the group in an hour, a slot allows
    `narrow` records.
    """

    first: int
    slots: int
    generous: int
    narrow: int


STRANGERS = Group(0, SLOTS, GENEROUS, NARROW)
PEOPLE = Group(SLOTS, SLOTS, GENEROUS, NARROW)
LIMITED = Group(2 * SLOTS, SLOTS, GENEROUS, 1)
PROVEN = Group(3 * SLOTS, 1, 500, 500)
STAFF = Group(3 * SLOTS + 1, 1, 500, 500)
# Callers that a busy service has refused. Their budget is small, because each record increases the load.
BUSY = Group(3 * SLOTS + 2, SLOTS, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record that is not stored yet. The fields are the columns of `ActivityRecord`."""

    at: datetime
    step: Step
    outcome: Outcome
    cause: str = ""
    attempt: UUID | None = None
    client_id: str = ""
    person_id: UUID | None = None
    reference: str = ""
    address: str = ""
    browser: str = ""
    login_mark: bytes | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    is_proven: bool = False

    def unsaved(self) -> ActivityRecord:
        return ActivityRecord(**asdict(self))


RECORDS = ActivityRecord._meta.db_table
BUDGETS = ActivityBudget._meta.db_table
_COLUMNS = tuple(Record.__dataclass_fields__)
_VALUES = ", ".join(f"%({name})s{'{json}' if name == 'detail' else ''}" for name in _COLUMNS)

_SPENT = f"""
    SELECT coalesce(sum(number), 0) FROM {BUDGETS}
     WHERE client_id = %(client_id)s AND slot >= %(first)s AND slot < %(end)s AND hour = %(hour)s
"""  # noqa: S608 - names of tables and columns only
_TAKE = f"""
    INSERT INTO {BUDGETS} (client_id, slot, hour, number) VALUES (%(client_id)s, %(slot)s, %(hour)s, 1)
    ON CONFLICT (client_id, slot) DO UPDATE
       SET number = CASE WHEN {BUDGETS}.hour = excluded.hour THEN {BUDGETS}.number + 1 ELSE 1 END, hour = excluded.hour
 RETURNING number
"""  # noqa: S608
# The limit MOST_OF_AN_ATTEMPT applies to each person of an attempt separately. So a stranger who opens another person's
# link cannot use up the limit of the other person. Records whose `is_proven` is false have a separate limit, because
# anybody who found a code can cause them.
_OTHERS = f"""
    SELECT 1 FROM {RECORDS} WHERE attempt = %(attempt)s
       AND coalesce(CAST(person_id AS text), '') = %(person)s AND is_proven = %(is_proven)s LIMIT {MOST_OF_AN_ATTEMPT}
"""  # noqa: S608
_ADD = f"""
    INSERT INTO {RECORDS} ({", ".join(_COLUMNS)}) SELECT {_VALUES} {{source}}
     WHERE {{condition}} (SELECT count(*) FROM ({_OTHERS}) AS others) < {MOST_OF_AN_ATTEMPT}
       AND (%(person)s = '' OR EXISTS (SELECT 1 FROM {User._meta.db_table} WHERE id = %(person_id)s))
"""  # noqa: S608
_ALLOWED = "CASE WHEN spent.number > %(flood)s THEN %(narrow)s ELSE %(generous)s END"
_FITS = f"taken.number <= {_ALLOWED} AND"
# The statement locks only one row, so two statements cannot deadlock.
TAKE_AND_ADD = f"""
      WITH spent AS (SELECT ({_SPENT}) AS number), taken AS ({_TAKE}),
           added AS ({_ADD.format(json="::jsonb", source="FROM taken, spent", condition=_FITS)})
    SELECT taken.number, {_ALLOWED} FROM taken, spent
"""  # noqa: S608
ADD = _ADD.format(json="", source="", condition="")

# The present hour, and the slots (client_id, slot) that are full in this hour. For a full slot, `add` runs no
# statement.
_full: tuple[int, set[tuple[str, int]]] = (0, set())
_lock = threading.Lock()


def slot_of(group: Group, caller: object) -> int:
    """The slot of a network address or a person. The hash is keyed, so no caller can choose a slot."""
    name = site_of(caller) or caller if isinstance(caller, str) else caller
    digest = hmac.digest(force_bytes(settings.SECRET_KEY), f"activity slot {name}".encode(), hashlib.sha256)
    return group.first + int.from_bytes(digest[:4]) % group.slots


def is_full(client_id: str, slot: int, now: datetime) -> bool:
    """Return whether this process knows that the slot is full in the hour of `now`."""
    hour, slots = _full
    return hour == _hour(now) and (client_id, slot) in slots


def add(record: Record, group: Group, slot: int, now: datetime | None = None) -> bool:
    """Write the record if the slot is not full in the hour of `now`. Returns whether the slot had room.

    If the attempt already has MOST_OF_AN_ATTEMPT records of the person, or the person is deleted meanwhile, the record
    is not written.

    `now` is by default the time of the record. If `is_full` returns True, no statement runs; otherwise, one runs on
    PostgreSQL and three on SQLite.
    """
    now = now or record.at
    if is_full(record.client_id, slot, now):
        return False
    values: dict[str, Any] = asdict(record) | {
        "detail": json.dumps(record.detail),
        "person": _as_text(record.person_id),
        "slot": slot,
        "first": group.first,
        "end": group.first + group.slots,
        "hour": _hour(now),
        "flood": FLOOD,
        "generous": group.generous,
        "narrow": group.narrow,
    }
    taken, allowed = fetch_one(TAKE_AND_ADD, **values) if is_postgresql() else _take_and_add(values)
    if taken >= allowed:
        _remember_full(record.client_id, slot, now)
    return bool(taken <= allowed)


def _take_and_add(values: dict[str, Any]) -> tuple[int, int]:
    with transaction.atomic():
        (spent,), (taken,) = fetch_one(_SPENT, **values), fetch_one(_TAKE, **values)
        allowed = values["narrow" if spent > FLOOD else "generous"]
        if taken <= allowed:
            fetch_one(f"{ADD} RETURNING id", **values)
    return taken, allowed


def _as_text(person_id: UUID | None) -> str:
    """The text to which the database casts the id; empty for None."""
    return "" if person_id is None else str(person_id) if is_postgresql() else person_id.hex


def _hour(now: datetime) -> int:
    return int(now.timestamp()) // _HOUR_SECONDS


def _remember_full(client_id: str, slot: int, now: datetime) -> None:
    global _full
    with _lock:
        hour, slots = _full
        kept = slots if hour == _hour(now) else set()
        _full = _hour(now), {*kept, (client_id, slot)}
