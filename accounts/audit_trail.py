"""The audit trail records each change by an administrator or operator, in the transaction of the change.

Only administration pages (`by_request`) and commands (`by_command`) write entries. Changes by people to their own
accounts are not recorded here. Nothing in this service changes or deletes an entry, so an entry outlives the actor's
account and the changed object. No entry contains a secret, a password, a digest, or the name or address of the person
whose account was changed. `sub` identifies this person while the account exists. Each entry is also logged as a
security event, which names the changed fields without their values.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import Group
from django.http import HttpRequest

from accounts.models import AuditEntry, User
from config.infrastructure import events, references
from config.infrastructure.events import Event
from config.infrastructure.network import client_address

COMMAND_LINE = "command line"
VALUE_LENGTH = 2000
ACTOR_NAME_LENGTH = 120

Changes = Mapping[str, tuple[object, object]]


class Actor(NamedTuple):
    """The person who makes a change. `pk` is None for a command. `name` and network `address` outlive the account."""

    pk: UUID | None
    name: str
    address: str


class Subject(NamedTuple):
    """The changed object. `kind` is application, person or group; `key` is the client_id, `sub` or primary key."""

    kind: str
    key: str
    name: str


_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextmanager
def by_request(request: HttpRequest) -> Iterator[None]:
    """Make the signed-in administrator the actor of all changes within this context."""
    person = request.user
    actor = Actor(person.pk, person.display_name, client_address(request)) if isinstance(person, User) else None
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def by_command() -> Iterator[None]:
    """Make the operator who runs the command the actor of all changes within this context."""
    token = _actor.set(Actor(None, f"{COMMAND_LINE} ({_system_user()})", ""))
    try:
        yield
    finally:
        _actor.reset(token)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user ID may have no name
        return "?"


def actor_name() -> str:
    """Return the name of the actor, or an empty string without an actor."""
    actor = _actor.get()
    return actor.name[:ACTOR_NAME_LENGTH] if actor else ""


def write(action: str, subject: Subject, changes: Changes | None = None) -> None:
    """Write an entry if there is an actor. `changes` maps each field to its values before and after.

    Fields whose two values are equal are left out. If `changes` has fields and none changed, nothing is written.
    """
    actor = _actor.get()
    if actor is None:
        return
    kept = {name: [_shown(before), _shown(after)] for name, (before, after) in (changes or {}).items()}
    kept = {name: pair for name, pair in kept.items() if pair[0] != pair[1]}
    if changes and not kept:
        return
    AuditEntry.objects.create(
        actor=actor.pk,
        actor_name=actor_name(),
        address=actor.address,
        action=action,
        kind=subject.kind,
        key=subject.key,
        name=subject.name[:120],
        changes=kept,
        reference=references.current.get(),
    )
    events.write(
        Event.ADMINISTERED,
        actor=actor.pk or actor_name(),
        action=action,
        kind=subject.kind,
        key=subject.key,
        fields=" ".join(kept) or None,
    )


@contextmanager
def changes(action: str, subject: Subject, stored: Callable[[], Mapping[str, object]]) -> Iterator[None]:
    """Compare `stored()` before and after the block, and write the difference. Without an actor, do nothing."""
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


def entries(kind: str = "", key: str = "", before_id: int = 0, limit: int = 50) -> list[AuditEntry]:
    """Return the matching entries, newest first. Empty arguments match every entry."""
    rows = AuditEntry.objects.all()
    if kind:
        rows = rows.filter(kind=kind)
    if key:
        rows = rows.filter(key=key)
    if before_id:
        rows = rows.filter(id__lt=before_id)
    return list(rows.order_by("-id")[:limit])


def described(entry: AuditEntry) -> dict[str, Any]:
    """Return the entry as a dictionary for JSON."""
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


def _shown(value: object) -> object:
    """Return the value for JSON. Line ends are unified, so texts that differ only in line ends are equal."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple | set):
        return sorted(str(each) for each in value)
    text = "\n".join(str(value).splitlines())
    return text[:VALUE_LENGTH]
