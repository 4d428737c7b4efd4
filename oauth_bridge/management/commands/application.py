"""`manage.py application`: register and manage applications. Contract, operator's interface."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from accounts import audit_trail
from accounts.email_addresses import looked_up_email
from config.infrastructure.texts import json_list, shown
from oauth_bridge.activity import reading
from oauth_bridge.activity.reading import MOST, OPERATOR, Filters, described
from oauth_bridge.administration import checks
from oauth_bridge.applications import fields, registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.management import registration, secret_commands
from oauth_bridge.management.registration import Change
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Step

AUDITED = 1000
FOLLOW_SECONDS = 1.0

# The actions, with the help of each.
ACTIONS = {
    "create": "register an application and print its secret, once",
    "activity": "the steps of sign-ins, the newest first, and what to change",
    "apply": "store what differs in a file; applications not in it are left alone",
    "list": "all applications",
    "export": "all applications as JSON, without secrets and logos",
    "audit": "who changed it, when, and how; the newest first; also of a deleted application",
    "show": "one application",
    "set": "change what is given; the rest stays",
    "check": "what would make a sign-in fail, and what is risky; ends with 1 if something would fail",
    "secrets": "its secrets, the newest first: number, name, maker, last use, end",
    "rotate-secret": "make a new secret and print it, once; the old one keeps working for a while",
    "revoke-secret": "end one secret at once",
    "disable": "disable it; its codes and tokens end at once",
    "enable": "enable it again; its earlier codes and tokens stay invalid",
    "delete": "delete it; its codes and tokens end at once",
}
WITHOUT_CLIENT_ID = ("create", "activity", "apply", "list", "export")


class Command(BaseCommand):
    help = "Register and manage applications."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action, text in ACTIONS.items():
            one = actions.add_parser(action, help=text)
            one.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
            if action not in WITHOUT_CLIENT_ID:
                one.add_argument("client_id")
            if action in ("create", "set"):
                registration.add_arguments(one, is_new=action == "create")
            elif action in ("revoke-secret", "rotate-secret"):
                secret_commands.add_arguments(one, action)
            elif action == "activity":
                _add_filters(one)
            elif action == "apply":
                one.add_argument("file", metavar="FILE", help="as `export` prints it; - for standard input")
                one.add_argument("--dry-run", action="store_true", help="print what differs, and store nothing")

    def handle(self, *args: Any, action: str, as_json: bool, **options: Any) -> None:
        if action == "export":
            for piece in json_list(registration.exported()):
                self.stdout.write(piece, ending="")
        elif action == "activity":
            self._list_activity(as_json, options)
        elif action == "check":
            self._check(_found(options["client_id"]), as_json)
        else:
            with audit_trail.by_command():
                result, text = self._result(action, options)
            self.stdout.write(
                json.dumps(result, ensure_ascii=False, default=datetime.isoformat) if as_json else text(result)
            )

    def _result(self, action: str, options: dict[str, Any]) -> tuple[Any, Callable[[Any], str]]:
        """Perform the action. Return its result for JSON, and the function that formats the result for a terminal."""
        if action == "create":
            return secret_commands.with_secret(*registration.create(options, self.stderr)), _plain
        if action == "apply":
            is_dry_run = options["dry_run"]
            changes = registration.apply(options["file"], is_dry_run=is_dry_run, warnings=self.stderr)
            end = " Nothing was stored: this was a dry run." if is_dry_run else ""
            return [_change(each) for each in changes], lambda _result: _changed(changes, end)
        if action == "list":
            return [_described(each) for each in Application.objects.prefetch_related("groups")], _listed
        client_id = options["client_id"]
        if action == "audit":
            entries = audit_trail.entries("application", client_id, limit=AUDITED)
            if not entries:  # a deleted application may have entries
                _found(client_id)
            return [audit_trail.described(entry) for entry in entries], _audited
        application = _found(client_id)
        if action == "rotate-secret":
            return secret_commands.rotate(application, options), _plain
        if action == "revoke-secret":
            return secret_commands.revoke(application, options, self.stderr), _plain
        if action == "secrets":
            found = [secret_commands.described(state) for state in secret_rotation.states(application)]
            return found, lambda secrets: "\n".join(map(secret_commands.line, secrets))
        if action == "set":
            application = registration.change(client_id, options, self.stderr)
        if action in ("enable", "disable"):
            registry.set_enabled(application, action == "enable")
        result = _described(application)
        if action == "show":
            result["secrets"] = [secret_commands.brief(secret) for secret in application.secrets.all()]
        if action == "delete":
            registry.delete(application)
            result["deleted"] = True
        return result, _plain

    def _list_activity(self, as_json: bool, options: dict[str, Any]) -> None:
        filters = _filters_of(options)
        if options["follow"]:
            with suppress(KeyboardInterrupt):
                for entry in _follow(filters):
                    self.stdout.write(
                        json.dumps(described(entry, OPERATOR), ensure_ascii=False) if as_json else _line(entry)
                    )
                    self.stdout.flush()
            return
        found = reading.entries(filters)
        if filters.client_id and not found:  # a deleted application may have records
            _found(filters.client_id)
        if as_json:
            self.stdout.write(json.dumps([described(entry, OPERATOR) for entry in found], ensure_ascii=False))
        else:
            lines = [_line(entry) for entry in found]
            self.stdout.write("\n".join(lines) or _nothing(filters))

    def _check(self, application: Application, as_json: bool) -> None:
        findings = checks.of_application(application)
        would_fail = any(each.would_fail for each in findings)
        if as_json:
            about = {"client_id": application.client_id, "name": application.name, "would_fail": would_fail}
            report = {**about, "findings": [each._asdict() for each in findings]}
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            lines = [
                f"{'would fail' if each.would_fail else 'look at'}: {each.problem} {each.fix}" for each in findings
            ]
            self.stdout.write("\n".join(shown(line.rstrip()) for line in lines) or "Nothing is wrong.")
        if would_fail:
            raise CommandError(f"A sign-in to {shown(application.name)} would fail.")


# The activity ---------------------------------------------------------------------------------------------------------


def _add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("client_id", nargs="?", default="", help="of one application")
    parser.add_argument("--cause", default="", help="such as secret_wrong")
    parser.add_argument("--step", default="", choices=["", *Step], metavar="STEP", help=", ".join(Step))
    parser.add_argument("--address", default="", help="a network address, or a person's e-mail address")
    parser.add_argument("--reference", default="", help="that of an error page, an error_description or the log")
    parser.add_argument("--since", default="", metavar="TIME", help="30m, 24h, 7d, or a time such as 2026-11-23T16:00Z")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help=f"100 unless given, at most {MOST}")
    parser.add_argument("--follow", action="store_true", help="go on printing what happens; Ctrl-C ends it")


def _filters_of(options: dict[str, Any]) -> Filters:
    """Return the filters that the options choose. Raises CommandError: an option is malformed."""
    if not 1 <= options["limit"] <= MOST:
        raise CommandError(f"--limit is a number from 1 to {MOST}.")
    names = ("client_id", "cause", "step", "reference", "limit")
    who = looked_up_email(options["address"]) or options["address"]
    return Filters(who=who, since=_since(options["since"]), **{name: options[name] for name in names})


def _since(text: str) -> datetime | None:
    if not text:
        return None
    if (ago := secret_commands.duration(text)) is not None:
        return timezone.now() - ago
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            "--since is a number and a unit, m, h or d, such as 24h, or a time such as 2026-11-23T16:00Z."
        ) from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _line(entry: ActivityRecord) -> str:
    """Format an entry for a terminal: the facts, then the advice."""
    at, cause = f"{entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", f": {entry.cause}" if entry.cause else ""
    parts = [
        f"{at}  {entry.reference or '-':8}  {entry.step} {entry.outcome}{cause}",
        " ".join(str(each) for each in (entry.client_id, entry.person_id, entry.address) if each),
    ]
    if sent := entry.detail.get("sent"):
        differs = ", ".join(entry.detail.get("differs", ()))
        parts.append(f"sent {sent}; nearest {entry.detail.get('nearest') or 'none'} ({differs})")
    if fix := reading.fix(entry, OPERATOR):
        parts.append(f"Fix: {fix}")
    return "\n    ".join(parts)


def _nothing(filters: Filters) -> str:
    """Return the text for a listing without entries."""
    if not filters.reference:
        return "Nothing is recorded."
    return (
        "Nothing is recorded with this reference: the record is deleted, or was one of very many refusals in an hour,"
        " of which only the first have one. The log of the service has every reference."
    )


def _follow(filters: Filters) -> Iterator[ActivityRecord]:
    """Yield the present entries, oldest first, then each new entry. This generator never ends."""
    found = reading.entries(filters)
    latest = max((entry.id for entry in found), default=reading.latest_id())
    while True:
        yield from reversed(found)
        time.sleep(FOLLOW_SECONDS)
        connection.close_if_unusable_or_obsolete()
        found = reading.entries(replace(filters, since=None, after_id=latest, limit=MOST))
        latest = max((entry.id for entry in found), default=latest)


# An application -------------------------------------------------------------------------------------------------------


def _found(client_id: str) -> Application:
    """Return the application. Raises CommandError: no application has this client_id."""
    application = Application.objects.filter(client_id=client_id).first()
    if application is None:
        raise CommandError(f"There is no application with the client_id {client_id}. See `application list`.")
    return application


def _described(application: Application) -> dict[str, Any]:
    return {**fields.registered(application), "created": application.created.isoformat()}


def _change(change: Change) -> dict[str, Any]:
    return {
        "client_id": change.application.client_id,
        "name": change.application.name,
        "action": "register" if change.is_new else "change",
        "before": change.before,
        "after": change.after,
    }


# Text for a terminal -------------------------------------------------------------------------------------------------


def _listed(found: list[dict[str, Any]]) -> str:
    lines = (f"{one['client_id']}  {shown(one['name'])}{'' if one['enabled'] else '  (disabled)'}" for one in found)
    return "\n".join(lines)


def _changed(changes: list[Change], end: str) -> str:
    """Format the changes of `apply`, field by field."""
    lines = []
    for each in changes:
        client_id = each.application.client_id
        lines.append(f"{'new' if each.is_new else 'change'} {client_id}  {shown(each.application.name)}")
        for name, after in each.after.items():
            before = each.before.get(name)
            if isinstance(after, list):
                lines += [f"  {name}: - {_word(value)}" for value in before or () if value not in after]
                lines += [f"  {name}: + {_word(value)}" for value in after if value not in (before or ())]
            else:
                lines.append(f"  {name}: {'' if each.is_new else _word(before) + ' -> '}{_word(after)}")
        if each.is_new and not each.application.is_public:
            lines.append(f"  It has no secret yet: `application rotate-secret {client_id}` makes one.")
    new = sum(each.is_new for each in changes)
    return "\n".join([*lines, f"{new:,} new, {len(changes) - new:,} changed.{end}"]) if changes else "no changes"


def _word(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False))


def _audited(entries: list[dict[str, Any]]) -> str:
    lines = []
    for entry in entries:
        changes = [f"{name}: {entry['before'][name]} -> {after}" for name, after in entry["after"].items()]
        by = entry["actor"] + (f" from {entry['address']}" if entry["address"] else "")
        facts = [entry["time"][:19], entry["action"], by, *changes, entry["reference"] or ""]
        lines.append("  ".join(facts).rstrip())
    return "\n".join(lines)


def _plain(result: dict[str, Any]) -> str:
    lines = []
    for name, value in result.items():
        if name in ("secrets", "older_secrets"):
            lines += [f"secret {one['id']}:".ljust(16) + secret_commands.ends_and_use(one) for one in value]
        else:
            text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
            lines.append(f"{name + ':':15} {shown(text)}")
    return "\n".join(lines)
