"""Register and change applications with the form of the pages: `application create`, `set` and `apply`. Contract."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper
from django.db import transaction

from accounts import rights
from config.infrastructure.command_errors import command_error, shown
from oauth_bridge.applications.forms import ApplicationForm
from oauth_bridge.callback_addresses.registration import split_lines
from oauth_bridge.models import Application
from oauth_bridge.storage import application_fields, applications, look_alikes, secret_rotation
from oauth_bridge.storage.application_fields import BY_NAME, FIELDS, NAMES

BATCH = 500
MOST_SHOWN = 20  # problems, and warnings of look-alikes


class GroupNames(forms.Field):
    """The names of groups, which need not exist."""

    def clean(self, value: Any) -> list[str]:
        try:
            return rights.validated_groups(value)
        except ValidationError as problem:
            raise ValidationError(problem.messages) from None


class CommandForm(ApplicationForm):
    """The form of the pages for the given columns, without confirmation, and with the columns that acts change."""

    groups = GroupNames(required=False)

    class Meta(ApplicationForm.Meta):
        fields = [each.column for each in FIELDS]

    def __init__(self, application: Application, given: dict[str, Any]) -> None:
        super().__init__({**given, "remove_used": True}, instance=application)
        needed = set() if application.pk else {"name", "redirect_uris"}
        for name in {*self.fields} - {*given, *needed, "remove_used"}:
            del self.fields[name]

    def check_name(self) -> None:
        """Do nothing, because `compare_names` compares the names of all applications of a file at once."""

    def check_groups(self) -> None:
        """A restricted application may have no groups, for example because its groups were deleted. D23."""
        if self.cleaned_data.get("groups") and not self.cleaned_data.get("is_restricted"):
            problem = "it is false, but there are groups. Leave it out, or set groups to an empty list."
            self.add_error("is_restricted", problem)


@dataclass
class Change:
    """A new application, or the change of one. `before` and `after` have the values that differ, by name of the field.

    `problems` are the reasons why it cannot be stored, by name of the field.
    """

    application: Application
    is_new: bool
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)


def locked(client_ids: Iterable[str]) -> dict[str, Application]:
    """Return the stored applications by client_id. They are locked in this order until the transaction ends."""
    found: dict[str, Application] = {}
    ordered = sorted(client_ids)
    for start in range(0, len(ordered), BATCH):
        rows = Application.objects.select_for_update(no_key=True).filter(client_id__in=ordered[start : start + BATCH])
        found |= {row.client_id: row for row in rows.order_by("client_id").prefetch_related("groups")}
    return found


def plan(application: Application, values: dict[str, Any]) -> Change:
    """Validate the values that differ from the stored values, and set them. Nothing is saved.

    The values have the types of their fields. A stored value that could not be registered today does not matter.
    """
    before, is_new = application_fields.registered(application), application.pk is None
    planned = Change(application, is_new)
    given = {name: value for name, value in values.items() if is_new or _comparable(value) != _comparable(before[name])}
    if not given and not is_new:
        return planned
    if "client_type" in given and not is_new:
        planned.problems["client_type"] = ["it is fixed when an application is registered. Register another one."]
    if "groups" in given:
        given["restricted"] = values.get("restricted", any(map(str.strip, given["groups"])))
    elif "restricted" in given:
        given["groups"] = before["groups"]
    for name, value in given.items():
        if BY_NAME[name].type is list and name != "groups":
            if value != [""] and any(len(split_lines(uri)) != 1 for uri in value):
                planned.problems[name] = ["An address is empty or has a line break."]
            given[name] = "\n".join(value)
    form = CommandForm(application, {BY_NAME[name].column: value for name, value in given.items()})
    for column, messages in form.errors.items():
        planned.problems.setdefault(NAMES.get(column, column), []).extend(map(str, messages))
    after = application_fields.registered(application) | {"groups": form.cleaned_data.get("groups", before["groups"])}
    for name in BY_NAME:
        differs = bool(after[name]) if is_new else after[name] != before[name]
        if differs:
            planned.after[name] = after[name]
            if not is_new:
                planned.before[name] = before[name]
    return planned


def _comparable(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def compare_names(changes: Sequence[Change], warnings: OutputWrapper) -> None:
    """Add a problem to each change whose name looks like a trusted application's. Warn of other names that look alike.

    One pass compares all names that exist after the changes.
    """
    renamed = [each for each in changes if {"name", "trusted"} & each.after.keys()]
    if not renamed:
        return
    alike: dict[str, list[Application]] = defaultdict(list)
    ours = {each.application.client_id: each.application for each in changes}
    others = Application.objects.only("client_id", "name", "is_trusted").iterator(chunk_size=BATCH)
    for each in [*ours.values(), *(row for row in others if row.client_id not in ours)]:
        alike[look_alikes.skeleton(each.name)].append(each)
    doubtful = []
    for change in renamed:
        name, is_trusted = change.application.name, change.application.is_trusted
        those = [each for each in alike[look_alikes.skeleton(name)] if each is not change.application]
        try:
            look_alikes.refuse_among(those, is_trusted=is_trusted, seen=None)
        except ValidationError as problem:
            change.problems.setdefault("name", []).extend(problem.messages)
        doubtful += [f"People could take “{each.name}” ({each.client_id}) for “{name}”." for each in those]
    if not any(change.problems for change in changes):
        for sentence in doubtful[:MOST_SHOWN]:
            warnings.write(shown(sentence))


def store(changes: Sequence[Change], warnings: OutputWrapper) -> None:
    """Store valid changes. A group that does not exist is made, with a warning."""
    wanted = sorted({name for change in changes for name in change.after.get("groups", ())})
    found, made = rights.named_groups(wanted) if wanted else ([], [])
    by_name = {group.name: group for group in found}
    for change in changes:
        chosen = [by_name[name] for name in change.after["groups"]] if "groups" in change.after else None
        if change.is_new:
            applications.add(change.application, chosen or ())
        elif change.after:
            columns = [BY_NAME[name].column for name in change.after if name != "groups"]
            applications.save(change.application, columns, chosen)
    for name in made:
        warnings.write(f"The group {shown(name)} did not exist and was made. Nobody is in it yet.")


def add_arguments(parser: ArgumentParser, *, is_new: bool) -> None:
    """Add the options of `create` or `set`."""
    if is_new:
        parser.add_argument("name")
        parser.add_argument("--public", action="store_true", help="it can keep no secret: it has none, and uses PKCE")
    for each in FIELDS:
        if not each.option or (is_new and each.name == "name"):
            continue
        if each.type is bool:
            parser.add_argument(each.option, action=BooleanOptionalAction, dest=each.name, help=each.help)
        else:
            parser.add_argument(
                each.option,
                action="append" if each.type is list else "store",
                dest=each.name,
                metavar=each.option.strip("-").upper(),
                required=is_new and each.name == "redirect_uris",
                help=each.help,
            )


@transaction.atomic
def create(options: dict[str, Any], warnings: OutputWrapper) -> tuple[Application, str]:
    """Register an application; return it and its secret ("" for a public one).

    Raises CommandError: a value cannot be registered. The message names the option.
    """
    kind = Application.CLIENT_PUBLIC if options["public"] else Application.CLIENT_CONFIDENTIAL
    application = Application()
    _carry_out(plan(application, {**_given(options), "client_type": kind}), warnings, {"name": "NAME"})
    return application, "" if application.is_public else secret_rotation.rotate(application).secret


@transaction.atomic
def change(client_id: str, options: dict[str, Any], warnings: OutputWrapper) -> Application:
    """Change the given values. Raises CommandError: none is given, or one cannot be stored."""
    given = _given(options)
    if not given:
        raise CommandError("Nothing to change was given. See `application set --help`.")
    application = locked([client_id])[client_id]
    _carry_out(plan(application, given), warnings)
    return application


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the options name. `--group` alone decides whether the application is restricted."""
    given = {each.name: options[each.name] for each in FIELDS if options.get(each.name) is not None}
    if "groups" in given:
        given["restricted"] = any(map(str.strip, given["groups"]))
    return given


def _carry_out(planned: Change, warnings: OutputWrapper, names: dict[str, str] | None = None) -> None:
    compare_names([planned], warnings)
    if planned.problems:
        options = {each.name: each.option for each in FIELDS if each.option}
        raise command_error(ValidationError(planned.problems), options | (names or {}))
    store([planned], warnings)
