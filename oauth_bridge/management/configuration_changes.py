"""`manage.py application apply`: check all changes of a file, then store them in one transaction. Contract.

Applications and fields that are not in the file do not change.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper
from django.db import IntegrityError, transaction

from accounts import groups
from config.infrastructure.command_errors import sentences, shown
from oauth_bridge.management import configuration_file, registration_fields
from oauth_bridge.management.configuration_file import CLIENT_ID, MOST_PROBLEMS, Entry, Problems
from oauth_bridge.management.registration_commands import warn_of_new_groups
from oauth_bridge.management.registration_fields import FIELDS, NAMES
from oauth_bridge.models import Application
from oauth_bridge.storage import applications, look_alikes

_NEEDED = ("name", "redirect_uris")


@dataclass
class Planned:
    """The planned change of an application. `groups` is None if the groups do not change.

    `before` and `after` contain only values that change.
    """

    application: Application
    is_new: bool
    columns: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    @property
    def is_renamed(self) -> bool:
        return self.is_new or bool({"name", "is_trusted"} & {*self.columns})


def apply(path: str, *, is_dry_run: bool, warnings: OutputWrapper) -> list[Planned]:
    """Return the changes, and store them unless it is a dry run.

    Raises CommandError: the file cannot be read, or a value cannot be stored. In both cases nothing is changed.
    """
    entries = configuration_file.entries(path)
    try:
        with transaction.atomic():
            changes = _planned(entries, warnings)
            if not is_dry_run:
                _store(changes, warnings)
    except IntegrityError:
        raise CommandError(
            "Another program registered one of these applications meanwhile. Nothing was changed: run this again."
        ) from None
    return changes


def _planned(entries: list[Entry], warnings: OutputWrapper) -> list[Planned]:
    """Return the changes in the order of client_id. Raises CommandError: see `Problems.refuse`."""
    existing = configuration_file.stored(sorted(entry.client_id for entry in entries))
    planned = {entry.client_id: _plan(entry, existing.get(entry.client_id)) for entry in entries}
    problems = Problems(problem for entry in entries for problem in entry.problems)
    problems += _look_alikes(entries, planned, warnings)
    problems.refuse()
    return [each for _, each in sorted(planned.items()) if each.is_new or each.columns or each.groups is not None]


def _plan(entry: Entry, application: Application | None) -> Planned:
    """Return the change of an entry. For each value that cannot be stored, add a problem to the entry."""
    if application is None:
        return _plan_new(entry)
    before = registration_fields.registered(application)
    planned = Planned(application, is_new=False)
    if entry.values.get("client_type", application.client_type) != application.client_type:
        entry.add("client_type", "it is fixed when an application is registered. Register another one.")
        return planned
    if sorted({*entry.values.get("groups", before["groups"])}) != before["groups"]:
        planned.groups = _groups(entry)
    after_groups = before["groups"] if planned.groups is None else planned.groups
    if planned.groups is not None:
        entry.values.setdefault("restricted", bool(after_groups))
    differing = {name: value for name, value in entry.values.items() if value != before[name]}
    _assign(entry, planned, differing)
    _check_groups(entry, application, after_groups)
    after = {**registration_fields.registered(application), "groups": after_groups}
    changed = [each.name for each in FIELDS if before[each.name] != after[each.name]]
    planned.before, planned.after = ({name: values[name] for name in changed} for values in (before, after))
    return planned


def _plan_new(entry: Entry) -> Planned:
    planned = Planned(Application(client_id=entry.client_id), is_new=True)
    if not CLIENT_ID.fullmatch(entry.client_id):
        entry.add("client_id", "no application has it, and a new one needs 32 digits and letters from a to f.")
    for name in _NEEDED:
        if name not in entry.values:
            entry.add(name, "a new application needs it.")
    planned.groups = _groups(entry) if "groups" in entry.values else []
    _assign(entry, planned, entry.values)
    if planned.groups:
        entry.values.setdefault("restricted", True)
        planned.application.is_restricted = entry.values["restricted"]
    _check_groups(entry, planned.application, planned.groups)
    values = registration_fields.values(planned.application) | {"groups": planned.groups}
    planned.after = {name: value for name, value in values.items() if value}
    return planned


def _assign(entry: Entry, planned: Planned, values: dict[str, Any]) -> None:
    try:
        planned.columns = applications.assign(planned.application, registration_fields.columns(values))
    except ValidationError as problem:
        for sentence in sentences(problem, NAMES):
            entry.add("", sentence)


def _groups(entry: Entry) -> list[str]:
    try:
        return groups.validated(entry.values["groups"])
    except ValidationError as problem:
        for sentence in sentences(problem, NAMES):
            entry.add("", sentence)
        return []


def _check_groups(entry: Entry, application: Application, names: list[str]) -> None:
    """Add a problem if an application has groups but is not restricted. D23.

    A restricted application may have no groups, for example because its groups were deleted. Nobody may use such an
    application.
    """
    if names and not application.is_restricted:
        entry.add("restricted", "it is false, but there are groups. Leave it out, or set groups to an empty list.")


def _look_alikes(entries: list[Entry], planned: dict[str, Planned], warnings: OutputWrapper) -> list[str]:
    """Return a problem for each name that looks like another.

    One pass compares all names that exist after the change.
    """
    renamed = [(entry, planned[entry.client_id]) for entry in entries if planned[entry.client_id].is_renamed]
    if not renamed:
        return []
    alike: dict[str, list[Application]] = defaultdict(list)
    ours = {client_id: each.application for client_id, each in planned.items()}
    others = Application.objects.only("client_id", "name", "is_trusted").iterator(chunk_size=1_000)
    for each in [*ours.values(), *(row for row in others if row.client_id not in ours)]:
        alike[look_alikes.skeleton(each.name)].append(each)
    for those in alike.values():
        those.sort(key=lambda each: not each.is_trusted)
    problems, doubtful = [], []
    for entry, plan in renamed:
        those = alike[look_alikes.skeleton(plan.application.name)]
        other = next((each for each in those if each is not plan.application), None)
        if other is None:
            continue
        try:
            look_alikes.refuse_among([other], is_trusted=plan.application.is_trusted, seen=None)
        except ValidationError as problem:
            problems.append(f"{entry.label}: name: {' '.join(problem.messages)}")
        else:
            doubtful.append(f"{entry.label}: people could take “{other.name}” ({other.client_id}) for it.")
    for sentence in [] if problems else doubtful[:MOST_PROBLEMS]:
        warnings.write(shown(sentence))
    return problems


def _store(changes: list[Planned], warnings: OutputWrapper) -> None:
    wanted = sorted({name for each in changes for name in each.groups or ()})
    found, made = groups.named(wanted) if wanted else ([], [])
    by_name = {group.name: group for group in found}
    for each in changes:
        chosen = None if each.groups is None else [by_name[name] for name in each.groups]
        if each.is_new:
            applications.add(each.application, chosen or ())
        else:
            applications.save(each.application, each.columns, chosen)
    warn_of_new_groups(made, warnings)


# What is printed -----------------------------------------------------------------------------------------------------


def described(each: Planned) -> dict[str, Any]:
    return {
        "client_id": each.application.client_id,
        "name": each.application.name,
        "action": "register" if each.is_new else "change",
        "before": each.before,
        "after": each.after,
    }


def text_of(changes: list[Planned], *, is_dry_run: bool) -> str:
    """Format the changes for a terminal, field by field."""
    if not changes:
        return "no changes"
    lines = [line for each in changes for line in _lines(each)]
    new = sum(each.is_new for each in changes)
    done = f"{new:,} new, {len(changes) - new:,} changed."
    return "\n".join([*lines, done + (" Nothing was stored: this was a dry run." if is_dry_run else "")])


def _lines(each: Planned) -> list[str]:
    client_id, name = each.application.client_id, shown(each.application.name)
    lines = [f"{'new' if each.is_new else 'change'} {client_id}  {name}"]
    for field_name, after in each.after.items():
        before = each.before.get(field_name)
        if isinstance(after, list):
            old = before or []
            lines += [f"  {field_name}: - {_word(value)}" for value in old if value not in after]
            lines += [f"  {field_name}: + {_word(value)}" for value in after if value not in old]
        else:
            lines.append(f"  {field_name}: {_word(before) + ' -> ' if not each.is_new else ''}{_word(after)}")
    if each.is_new and not each.application.is_public:
        lines.append(f"  It has no secret yet: `application rotate-secret {client_id}` makes one.")
    return lines


def _word(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False))
