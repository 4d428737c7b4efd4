"""Register and change applications: `application create`, `set` and `apply`. Each stores all changes or none."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper
from django.db import IntegrityError, transaction

from accounts import rights
from config.infrastructure.texts import command_error, shown
from oauth_bridge.administration.application_form import ApplicationForm
from oauth_bridge.applications import fields as application_fields
from oauth_bridge.applications import look_alikes, registry
from oauth_bridge.applications.fields import BY_NAME, FIELDS, NAMES
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application

CLIENT_ID = re.compile("[0-9a-f]{32}")  # the format of `models.new_client_id`
TYPES = {str: "a text", list: "a list of texts", bool: "true or false"}


class CommandForm(ApplicationForm):
    """The administration's form, with the fields in `given`. For a new application, it also has the required fields."""

    groups = forms.Field(required=False)  # names of groups, which need not exist

    class Meta(ApplicationForm.Meta):
        fields = [each.column for each in FIELDS]

    def __init__(self, application: Application, given: dict[str, Any]) -> None:
        super().__init__({**given, "remove_used": True}, instance=application)
        needed = set() if application.pk else {"name", "redirect_uris"}
        for name in {*self.fields} - {*given, *needed, "remove_used"}:
            del self.fields[name]

    def clean_groups(self) -> list[str]:
        try:
            return rights.validated_groups(self.cleaned_data["groups"])
        except ValidationError as problem:
            raise ValidationError(problem.messages) from None

    def check_name(self) -> None:
        """Do nothing: `compare_names` compares the names after all applications of the command are stored."""

    def check_groups(self) -> None:
        """Refuse groups if `is_restricted` is false. If it is true, the list of groups may be empty."""
        if self.cleaned_data.get("groups") and not self.cleaned_data.get("is_restricted"):
            problem = "it is false, but there are groups. Leave it out, or set groups to an empty list."
            self.add_error("is_restricted", problem)


@dataclass
class Change:
    """The result of `store`: the values that differ, by field. The caller rolls back if there are `problems`."""

    application: Application
    is_new: bool
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        action = "register" if self.is_new else "change"
        named = {"client_id": self.application.client_id, "name": self.application.name}
        return {**named, "action": action, "before": self.before, "after": self.after}


def store(application: Application, values: dict[str, Any]) -> Change:
    """Validate and store the values that differ from the stored values. If one has a problem, store nothing.

    A value that equals the stored value is not validated. Call this in a transaction.
    """
    change = Change(application, is_new=not application.pk)
    before = application_fields.registered(application)
    given = {
        name: value
        for name, value in values.items()
        if change.is_new or _comparable(value) != _comparable(before[name])
    }
    if not given and not change.is_new:
        return change
    if "client_type" in given and not change.is_new:
        change.problems["client_type"] = ["it is fixed when an application is registered. Register another one."]
    if "groups" in given:
        given["restricted"] = values.get("restricted", any(map(str.strip, given["groups"])))
    elif "restricted" in given:
        given["groups"] = before["groups"]
    lines = {name: "\n".join(value) for name, value in given.items() if isinstance(value, list) and name != "groups"}
    form = CommandForm(application, {BY_NAME[name].column: value for name, value in (given | lines).items()})
    for column, messages in form.errors.items():
        change.problems.setdefault(NAMES.get(column, column), []).extend(map(str, messages))
    if change.problems:
        return change
    after = application_fields.registered(application) | {"groups": form.cleaned_data.get("groups", before["groups"])}
    differing = [name for name in BY_NAME if (after[name] if change.is_new else after[name] != before[name])]
    change.after = {name: after[name] for name in differing}
    change.before = {} if change.is_new else {name: before[name] for name in differing}
    chosen = None
    if "groups" in differing:
        chosen, made = rights.named_groups(after["groups"])
        change.notes += [f"The group {name} did not exist, so it is made. Nobody is in it yet." for name in made]
    if change.is_new:
        registry.add(application, chosen or ())
    elif differing:
        registry.save(application, [BY_NAME[name].column for name in differing if name != "groups"], chosen)
    return change


def _comparable(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def locked(client_ids: Collection[str]) -> dict[str, Application]:
    """Return the applications that exist, by client_id. Lock them in the order of client_id to prevent deadlocks."""
    rows = Application.objects.select_for_update(no_key=True).filter(client_id__in=client_ids)
    return {row.client_id: row for row in rows.order_by("client_id").prefetch_related("groups")}


def compare_names(changes: Iterable[Change]) -> None:
    """If `name` or `trusted` changed, note similar names. Add a problem if `look_alikes.refuse` refuses the name."""
    for change in changes:
        if {"name", "trusted"} & change.after.keys():
            application = change.application
            alike = look_alikes.find(application.name, application.pk)
            try:
                look_alikes.refuse(alike, is_trusted=application.is_trusted, seen=None)
            except ValidationError as problem:
                change.problems["name"] = problem.messages
            like = (f"People could take “{each.name}” ({each.client_id}) for “{application.name}”." for each in alike)
            change.notes.extend(like)


def _write_notes(changes: Iterable[Change], warnings: OutputWrapper) -> None:
    for change in changes:
        for note in change.notes:
            warnings.write(shown(note))


def add_arguments(parser: ArgumentParser, *, is_new: bool) -> None:
    if is_new:
        parser.add_argument("name")
        parser.add_argument("--public", action="store_true", help="it can keep no secret: it has none, and uses PKCE")
    for each in FIELDS:
        if each.option and not (is_new and each.name == "name"):
            more: dict[str, Any] = {"action": BooleanOptionalAction}
            if each.type is not bool:
                is_needed = is_new and each.name == "redirect_uris"
                action = "append" if each.type is list else "store"
                more = {"action": action, "metavar": each.option.strip("-").upper(), "required": is_needed}
            parser.add_argument(each.option, dest=each.name, help=each.help, **more)


@transaction.atomic
def create(options: dict[str, Any], warnings: OutputWrapper) -> tuple[Application, str]:
    """Register an application. Return it and its secret ("" if it is public). Raises CommandError: a value is wrong."""
    kind = Application.CLIENT_PUBLIC if options["public"] else Application.CLIENT_CONFIDENTIAL
    application = Application()
    _store_one(application, _given(options) | {"client_type": kind}, warnings)
    return application, "" if application.is_public else secret_rotation.rotate(application).secret


@transaction.atomic
def change(client_id: str, options: dict[str, Any], warnings: OutputWrapper) -> Application:
    """Store `options`. Raises CommandError: no value, or a wrong value. Raises KeyError: the client_id is unknown."""
    given = _given(options)
    if not given:
        raise CommandError("Nothing to change was given. See `application set --help`.")
    application = locked([client_id])[client_id]
    _store_one(application, given, warnings)
    return application


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {each.name: options[each.name] for each in FIELDS if options.get(each.name) is not None}


def _store_one(application: Application, values: dict[str, Any], warnings: OutputWrapper) -> None:
    stored = store(application, values)
    compare_names([stored])
    if stored.problems:
        options = {each.name: each.option for each in FIELDS if each.option}
        raise command_error(ValidationError(stored.problems), options | ({"name": "NAME"} if stored.is_new else {}))
    _write_notes([stored], warnings)


def apply(path: str, *, is_dry_run: bool, warnings: OutputWrapper) -> list[Change]:
    """Store the changes that the file asks for, unless `is_dry_run`. Return them. Raises CommandError: wrong values."""
    entries = _entries(_read(path))
    try:
        with transaction.atomic():
            stored = locked(entries)
            changes = [
                store(stored.get(client_id) or Application(client_id=client_id), values)
                for client_id, (_label, values) in sorted(entries.items())
            ]
            compare_names(changes)
            _refuse(
                f"{entries[each.application.client_id][0]}: {name}: {' '.join(sentences)}"
                for each in changes
                for name, sentences in each.problems.items()
            )
            transaction.set_rollback(is_dry_run)
    except IntegrityError:
        raise CommandError(
            "Another program registered one of these applications meanwhile. Nothing was changed: run this again."
        ) from None
    _write_notes(changes, warnings)
    return [each for each in changes if each.is_new or each.after]


def _read(path: str) -> list[Any]:
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        found = json.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"FILE: it can't be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise CommandError(f"FILE: it is not JSON in UTF-8: {shown(str(error)[:200])}.") from None
    if not isinstance(found, list):
        raise CommandError("FILE: a JSON list of applications is needed, as `application export` prints it.")
    return found


def _entries(contents: list[Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return each entry's label (for messages) and values, by client_id. Raises CommandError: an entry is wrong."""
    entries: dict[str, tuple[str, dict[str, Any]]] = {}
    problems = []
    for number, content in enumerate(contents, 1):
        values = dict(content) if isinstance(content, dict) else {}
        client_id = values.pop("client_id", None)
        if not isinstance(client_id, str) or not CLIENT_ID.fullmatch(client_id):
            problems.append(f"No. {number}: client_id: it is missing, or not 32 digits and letters from a to f.")
            continue
        label = f"No. {number} ({client_id})"
        if client_id in entries:
            problems.append(f"{label}: client_id: it is there more than once.")
        for name, value in values.items():
            if name not in BY_NAME:
                known = "`application export` prints the fields that exist."
                problems.append(f"{label}: {name[:80]}: there is no such field. {known}")
            elif not isinstance(value, wanted := BY_NAME[name].type) or (
                isinstance(value, list) and not all(isinstance(each, str) for each in value)
            ):
                problems.append(f"{label}: {name}: it must be {TYPES[wanted]}.")
        entries[client_id] = label, values
    _refuse(problems)
    return entries


def _refuse(problems: Iterable[str]) -> None:
    if lines := [shown(problem) for problem in problems]:
        raise CommandError("\n".join(["Nothing was changed.", *lines]))
