"""`manage.py application export` and `apply`: all applications as a JSON list. Contract.

`apply` checks the whole file, then stores all changes in one transaction. What is not in the file does not change.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.db import IntegrityError, transaction

from config.infrastructure.texts import shown
from oauth_bridge.applications import fields
from oauth_bridge.applications.fields import BY_NAME
from oauth_bridge.management import registration
from oauth_bridge.management.registration import BATCH, MOST_SHOWN, Change
from oauth_bridge.models import Application

MOST_BYTES = 64 * 1024 * 1024
STANDARD_INPUT = 0
CLIENT_ID = re.compile("[0-9a-f]{32}")  # the format of `models.new_client_id`
TYPES = {str: "a text", list: "a list of texts", bool: "true or false"}


def exported() -> Iterator[dict[str, Any]]:
    """Return all applications in the format that `apply` reads."""
    rows = Application.objects.order_by("client_id").prefetch_related("groups")
    return (fields.registered(row) for row in rows.iterator(chunk_size=BATCH))


def apply(path: str, *, is_dry_run: bool, warnings: OutputWrapper) -> list[Change]:
    """Return the changes in the order of client_id, and store them unless it is a dry run.

    Raises CommandError: the file cannot be read, or a value cannot be stored. In both cases nothing is changed.
    """
    entries = [_Entry(number, content) for number, content in enumerate(_read(path), 1)]
    for client_id, times in Counter(entry.client_id for entry in entries if entry.client_id).items():
        if times > 1:
            last = next(entry for entry in reversed(entries) if entry.client_id == client_id)
            last.add("client_id", "it is there more than once.")
    _refuse(problem for entry in entries for problem in entry.problems)
    try:
        with transaction.atomic():
            changes = _planned(entries, warnings)
            if not is_dry_run:
                registration.store(changes, warnings)
    except IntegrityError:
        raise CommandError(
            "Another program registered one of these applications meanwhile. Nothing was changed: run this again."
        ) from None
    return changes


class _Entry:
    """An application of the file. `values` contains only the fields whose values have the right type."""

    def __init__(self, number: int, content: Any) -> None:
        self.problems: list[str] = []
        self.values: dict[str, Any] = {}
        members = content if isinstance(content, dict) else {}
        client_id = members.get("client_id")
        is_client_id = isinstance(client_id, str) and client_id.isprintable() and len(client_id) <= 255
        self.client_id = str(client_id) if is_client_id else ""
        self.label = f"No. {number} ({client_id})" if self.client_id else f"No. {number}"
        if not self.client_id:
            self.add("client_id", "it is missing, or not one.")
        for name, value in members.items():
            if name == "client_id":
                continue
            if name in ("client_secret", "secret", "secrets"):
                self.add(name, "a secret is never part of a file. `application rotate-secret` makes one.")
            elif name not in BY_NAME:
                self.add(name[:80], "there is no such field.")
            elif not isinstance(value, wanted := BY_NAME[name].type) or not _has_texts(value):
                self.add(name, f"it must be {TYPES[wanted]}.")
            else:
                self.values[name] = value

    def add(self, field: str, problem: str) -> None:
        self.problems.append(f"{self.label}: {field}: {problem}")


def _has_texts(value: object) -> bool:
    return not isinstance(value, list) or all(isinstance(each, str) for each in value)


def _refuse(problems: Iterable[str]) -> None:
    """Raise CommandError if there are problems. The message names at most MOST_SHOWN problems."""
    lines = [shown(problem) for problem in problems]
    if len(lines) == 1:
        raise CommandError(f"{lines[0]} Nothing was changed.")
    if more := lines[MOST_SHOWN:]:
        lines = [*lines[:MOST_SHOWN], f"… and {len(more):,} more."]
    if lines:
        raise CommandError("\n".join(["Nothing was changed.", *lines]))


def _planned(entries: list[_Entry], warnings: OutputWrapper) -> list[Change]:
    """Return the changes in the order of client_id. Raises CommandError: see `_refuse`."""
    stored = registration.locked(entry.client_id for entry in entries)
    planned = {}
    for entry in entries:
        application = stored.get(entry.client_id) or Application(client_id=entry.client_id)
        planned[entry.client_id] = change = registration.plan(application, entry.values)
        if change.is_new and not CLIENT_ID.fullmatch(entry.client_id):
            entry.add("client_id", "no application has it, and a new one needs 32 digits and letters from a to f.")
    registration.compare_names([*planned.values()], warnings)
    for entry in entries:
        for field, sentences in planned[entry.client_id].problems.items():
            entry.add(field, " ".join(sentences))
    _refuse(problem for entry in entries for problem in entry.problems)
    return [each for _, each in sorted(planned.items()) if each.is_new or each.after]


# Reading -------------------------------------------------------------------------------------------------------------


def _read(path: str) -> list[Any]:
    """Return the list in the file, or in standard input if the path is `-`. Raises CommandError: it is none."""
    try:
        is_file = path != "-"
        with open(path if is_file else STANDARD_INPUT, "rb", closefd=is_file) as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"FILE: it can't be read: {error.strerror or error}.") from None
    except ValueError:  # a path with NUL, or bytes that are not UTF-8
        raise CommandError("FILE: it is not a text in UTF-8.") from None
    if len(content) > MOST_BYTES:
        raise CommandError(f"FILE: it is longer than {MOST_BYTES // 1024**2} MB. Split it.")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"FILE: it is not JSON: {shown(str(error)[:200])}.") from None
    if not isinstance(found, list):
        raise CommandError("FILE: a JSON list of applications is needed, as `application export` prints it.")
    return found


# What is printed -----------------------------------------------------------------------------------------------------


def described(each: Change) -> dict[str, Any]:
    return {
        "client_id": each.application.client_id,
        "name": each.application.name,
        "action": "register" if each.is_new else "change",
        "before": each.before,
        "after": each.after,
    }


def text_of(changes: list[Change], *, is_dry_run: bool) -> str:
    """Format the changes for a terminal, field by field."""
    if not changes:
        return "no changes"
    lines = [line for each in changes for line in _lines(each)]
    new = sum(each.is_new for each in changes)
    done = f"{new:,} new, {len(changes) - new:,} changed."
    return "\n".join([*lines, done + (" Nothing was stored: this was a dry run." if is_dry_run else "")])


def _lines(each: Change) -> list[str]:
    client_id, name = each.application.client_id, shown(each.application.name)
    lines = [f"{'new' if each.is_new else 'change'} {client_id}  {name}"]
    for field, after in each.after.items():
        before = each.before.get(field)
        if isinstance(after, list):
            old = before or []
            lines += [f"  {field}: - {_word(value)}" for value in old if value not in after]
            lines += [f"  {field}: + {_word(value)}" for value in after if value not in old]
        else:
            lines.append(f"  {field}: {_word(before) + ' -> ' if not each.is_new else ''}{_word(after)}")
    if each.is_new and not each.application.is_public:
        lines.append(f"  It has no secret yet: `application rotate-secret {client_id}` makes one.")
    return lines


def _word(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False))
