"""Record each change by an administrator or operator, in the transaction of the change.

Entries are never deleted, so they contain no secret, password or digest. The actor is the only person they name.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Q
from django.http import HttpRequest

from accounts.models import AuditEntry, User
from config.infrastructure import events, network, rate_limits
from config.infrastructure.events import Event
from config.infrastructure.network import client_address
from config.infrastructure.rate_limits import Counter

COMMAND_LINE = "command line"
# The form of a time in a text that is stored, here or in a record. Pages show it in the reader's time zone.
TIME_FORMAT = "%Y-%m-%d %H:%M UTC"
# The most characters of a value, and of what is added to or removed from a list: entries are never deleted.
VALUE_LENGTH = 2000
MOST_LISTED = 50  # texts of such a list
NAME_LENGTH = 120

# The most entries of one request that count towards the limit `administration`, so that an action on many objects does
# not use up the hour.
MOST_COUNTED = 10
_BATCH = 1_000
NO_FILTER = Q()
_LISTS = (list, tuple, set)

Changes = Mapping[str, tuple[object, object]]


@dataclass
class Actor:
    """Who makes the changes: a person, or a command if `pk` is None."""

    pk: UUID | None
    name: str
    address: str
    counted: int = 0

    def count(self) -> None:
        self.counted += 1
        if self.pk and self.counted <= MOST_COUNTED:
            rate_limits.count(Counter("act", str(self.pk)), Counter("administration", str(self.pk)))


def seconds_to_wait(person: UUID, *, is_act: bool) -> int:
    """Return the seconds until the person may make a change, or 0. Acts such as "unlock" have a higher limit."""
    return rate_limits.exceeded(Counter("act" if is_act else "administration", str(person)))


class Subject(NamedTuple):
    """The changed object, as `AuditEntry` stores it."""

    kind: str
    key: str
    name: str


_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextmanager
def _by(actor: Actor | None) -> Iterator[None]:
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def by_request(request: HttpRequest) -> AbstractContextManager[None]:
    """Attribute changes in the `with` block to the signed-in person. If nobody is signed in, record no changes."""
    person = request.user
    return _by(Actor(person.pk, person.display_name, client_address(request)) if isinstance(person, User) else None)


def by_command() -> AbstractContextManager[None]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, the user ID may have no name
        user = "?"
    return _by(Actor(None, f"{COMMAND_LINE} ({user})"[:NAME_LENGTH], ""))


def actor_name() -> str:
    actor = _actor.get()
    return actor.name if actor else ""


def write(action: str, subject: Subject, changes: Changes | None = None) -> None:
    """Write an entry. Do nothing if there is no actor, or if `changes` contains fields but none has a new value."""
    write_all(action, [subject], changes)


def write_all(action: str, subjects: Sequence[Subject], changes: Changes | None = None) -> None:
    """Do what `write` does, for each subject. The rate limits count all these entries as one change."""
    actor = _actor.get()
    pairs = {name: _difference(before, after) for name, (before, after) in (changes or {}).items()}
    kept = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if actor is None or (changes and not kept):
        return
    actor.count()
    by: dict[str, Any] = {"actor": actor.pk, "actor_name": actor.name, "address": actor.address}
    act: dict[str, Any] = {"action": action, "changes": kept, "reference": network.reference.get()}
    rows = [AuditEntry(kind=kind, key=key, name=name[:NAME_LENGTH], **by, **act) for kind, key, name in subjects]
    AuditEntry.objects.bulk_create(rows, batch_size=_BATCH)
    for subject in subjects:
        facts: dict[str, Any] = {"kind": subject.kind, "key": subject.key, "fields": " ".join(kept) or None}
        events.write(Event.ADMINISTERED, actor=actor.pk or actor.name, action=action, **facts)


@contextmanager
def changes(action: str, subject: Subject, stored: Callable[[], Mapping[str, object]]) -> Iterator[None]:
    """Compare `stored()` before and after the `with` block. Write an entry if a value changed and there is an actor."""
    if _actor.get() is None:
        yield
        return
    before = stored()
    yield
    after = stored()
    write(action, subject, {name: (before[name], after[name]) for name in before})


def of_person(person: User) -> Subject:
    return Subject("person", str(person.pk), "")


def of_group(group: Group) -> Subject:
    return Subject("group", str(group.pk), group.name)


def entries(
    kind: str = "", key: str = "", before_id: int = 0, limit: int = 50, where: Q = NO_FILTER
) -> list[AuditEntry]:
    """Return at most `limit` entries with ids below `before_id`, newest first. Empty arguments match every entry."""
    wanted = {"kind": kind, "key": key, "id__lt": before_id}
    rows = AuditEntry.objects.filter(where, **{name: value for name, value in wanted.items() if value})
    return list(rows.order_by("-id")[:limit])


def described(entry: AuditEntry) -> dict[str, Any]:
    return {
        "time": entry.at.isoformat(),
        "actor": entry.actor_name,
        "actor_id": entry.actor and str(entry.actor),
        "address": entry.address or None,
        "action": entry.action,
        "kind": entry.kind,
        "key": entry.key,
        "name": entry.name,
        "before": {name: pair[0] for name, pair in entry.changes.items()},
        "after": {name: pair[1] for name, pair in entry.changes.items()},
        "reference": entry.reference or None,
    }


def _difference(before: object, after: object) -> list[object]:
    if isinstance(before, _LISTS) or isinstance(after, _LISTS):
        old, new = ({str(each) for each in values or ()} for values in (before, after))  # type: ignore[attr-defined]
        return [_cut(sorted(old - new)), _cut(sorted(new - old))]
    return [_shown(before), _shown(after)]


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    # Texts that differ only in line ends are equal.
    text = "\n".join(str(value).splitlines())
    return text[:VALUE_LENGTH]


def _cut(texts: list[str]) -> list[str]:
    kept = texts[:MOST_LISTED]
    longest = VALUE_LENGTH // max(len(kept), 1)
    kept = [text if len(text) <= longest else f"{text[: longest - 1]}…" for text in kept]
    return [*kept, f"… {len(texts) - MOST_LISTED} more"] if texts[MOST_LISTED:] else kept
