"""The audit trail: the changes by administrators and operators, written in the transaction of each change.

Only pages of the administration and commands write entries (`by_request`, `by_command`). Changes by people to their own
accounts are not recorded here. Nothing in this service changes or deletes an entry, so the entry outlives the actor's
account and the changed object. No entry contains a secret, a password or a digest, or the name or address of the person
whose account was changed: `sub` identifies the person while the account exists. Each entry is also written as a
security event without the values.
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
    """Who acts: the account, if there is one, and a name and a network address, which outlive the account."""

    pk: UUID | None
    name: str
    address: str


class Subject(NamedTuple):
    """The changed object: `kind` is application, person or group, and `key` its client_id, `sub` or number."""

    kind: str
    key: str
    name: str


_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextmanager
def by_request(request: HttpRequest) -> Iterator[None]:
    """The signed-in administrator acts."""
    person = request.user
    actor = Actor(person.pk, person.display_name, client_address(request)) if isinstance(person, User) else None
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def by_command() -> Iterator[None]:
    """The operator who runs the command acts."""
    token = _actor.set(Actor(None, f"{COMMAND_LINE} ({_system_user()})", ""))
    try:
        yield
    finally:
        _actor.reset(token)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user's number may have no name
        return "?"


def actor_name() -> str:
    """The name of the actor; empty without an actor."""
    actor = _actor.get()
    return actor.name[:ACTOR_NAME_LENGTH] if actor else ""


def write(action: str, subject: Subject, changes: Changes | None = None) -> None:
    """Write an entry if there is an actor. `changes` maps each field to its values before and after.

    Fields with equal values are left out. Nothing is written if no field changed.
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
    """Write how the block changed the `stored` values, which are read only if there is an actor."""
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
    """The entries, newest first."""
    rows = AuditEntry.objects.all()
    if kind:
        rows = rows.filter(kind=kind)
    if key:
        rows = rows.filter(key=key)
    if before_id:
        rows = rows.filter(id__lt=before_id)
    return list(rows.order_by("-id")[:limit])


def described(entry: AuditEntry) -> dict[str, Any]:
    """The entry as a value for JSON."""
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
    """The value for JSON. A text becomes a list of lines, so texts that differ only in their line ends are equal."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple | set):
        return sorted(str(each) for each in value)
    text = "\n".join(str(value).splitlines())
    return text[:VALUE_LENGTH]
