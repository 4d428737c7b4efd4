"""`manage.py application`: register and manage applications."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from accounts import audit_trail
from accounts.email_addresses import looked_up_email
from config.infrastructure.texts import shown
from oauth_bridge.activity import reading
from oauth_bridge.activity.reading import MOST, Filters, described
from oauth_bridge.administration import checks
from oauth_bridge.administration.activity import time_of
from oauth_bridge.applications import fields, registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.management import registration, secret_commands
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Step

AUDITED = 1000
FOLLOW_SECONDS = 1.0
NOT_RECORDED = (
    "Nothing is recorded with this reference: the record is deleted, or was one of very many refusals in an hour, of"
    " which only the first have one. The log of the service has every reference."
)

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
        if options.get("follow"):
            for entry in _follow(_filters_of(options)):
                self.stdout.write(_json(entry) if as_json else _entry(entry))
                self.stdout.flush()
        with audit_trail.by_command():
            result = self._result(action, options)
        if as_json or action == "export":
            text = _json(result, indent=2 if action == "export" else None)
        else:
            found = result["findings"] if action == "check" else result if isinstance(result, list) else [result]
            text = "\n".join(map(TEXTS.get(action, _plain), found)) or NOTHING.get(action, "")
        self.stdout.write(text)
        if action == "check" and result["would_fail"]:
            raise CommandError(f"A sign-in to {shown(result['name'])} would fail.")

    def _result(self, action: str, options: dict[str, Any]) -> Any:
        if action == "create":
            return secret_commands.with_secret(*registration.create(options, self.stderr))
        if action == "apply":
            changes = registration.apply(options["file"], is_dry_run=options["dry_run"], warnings=self.stderr)
            if options["dry_run"]:
                self.stderr.write("Nothing was stored: this was a dry run.")
            return [each.described() for each in changes]
        if action == "list":
            return [_described(each) for each in Application.objects.prefetch_related("groups")]
        if action == "export":
            rows = Application.objects.order_by("client_id").prefetch_related("groups")
            return [fields.registered(each) for each in rows]
        client_id = options["client_id"]
        if action == "activity":
            filters = _filters_of(options)
            found = reading.entries(filters)
            if client_id and not found:  # a deleted application may have records
                _found(client_id)
            elif filters.reference and not found:
                self.stderr.write(NOT_RECORDED)
            return [described(entry) for entry in found]
        if action == "audit":
            entries = audit_trail.entries("application", client_id, limit=AUDITED)
            if not entries:  # a deleted application may have entries
                _found(client_id)
            return [audit_trail.described(entry) for entry in entries]
        application = _found(client_id)
        if action == "check":
            findings = checks.of_application(application)
            about = {"client_id": client_id, "name": application.name}
            would_fail = any(each.would_fail for each in findings)
            return {**about, "would_fail": would_fail, "findings": [each._asdict() for each in findings]}
        if action == "rotate-secret":
            return secret_commands.rotate(application, options)
        if action == "revoke-secret":
            return secret_commands.revoke(application, options, self.stderr)
        secrets = [secret_commands.described(state) for state in secret_rotation.states(application)]
        if action == "secrets":
            return secrets
        if action == "show":
            return {**_described(application), "secrets": secrets}
        if action == "set":
            application = registration.change(client_id, options, self.stderr)
        elif action in ("enable", "disable"):
            registry.set_enabled(application, action == "enable")
        result = _described(application)
        if action == "delete":
            registry.delete(application)
            result["deleted"] = True
        return result


# The activity ---------------------------------------------------------------------------------------------------------


def _add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("client_id", nargs="?", default="", help="of one application")
    parser.add_argument("--cause", default="", help="such as secret_wrong")
    parser.add_argument("--step", default="", choices=["", *Step], metavar="STEP", help=", ".join(Step))
    parser.add_argument("--address", default="", help="a network address, or a person's e-mail address")
    parser.add_argument("--reference", default="", help="that of an error page, an error_description or the log")
    parser.add_argument("--since", default="", metavar="TIME", help="30m, 24h, 7d, or a time such as 2026-11-23T16:00Z")
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"100, or 10 with --follow, unless given; at most {MOST}"
    )
    parser.add_argument("--follow", action="store_true", help="go on printing what happens; Ctrl-C ends it")


def _filters_of(options: dict[str, Any]) -> Filters:
    limit = (10 if options["follow"] else 100) if options["limit"] is None else options["limit"]
    if not 1 <= limit <= MOST:
        raise CommandError(f"--limit is a number from 1 to {MOST}.")
    ago, text = secret_commands.duration(options["since"]), options["since"]
    since = time_of(text) if ago is None else timezone.now() - ago
    if text and since is None:
        raise CommandError(
            "--since is a number and a unit, m, h or d, such as 24h, or a time such as 2026-11-23T16:00Z."
        )
    names = ("client_id", "cause", "step", "reference")
    who = looked_up_email(options["address"]) or options["address"]
    return Filters(who=who, since=since, limit=limit, **{name: options[name] for name in names})


def _follow(filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield the latest records that fit the filters, oldest first. Then yield new records, without end."""
    found = reading.entries(filters)
    latest = max((entry.id for entry in found), default=reading.latest_id())
    while True:
        yield from (described(entry) for entry in reversed(found))
        time.sleep(FOLLOW_SECONDS)
        connection.close_if_unusable_or_obsolete()
        found = reading.entries(replace(filters, since=None, after_id=latest, limit=MOST))
        latest = max((entry.id for entry in found), default=latest)


def _found(client_id: str) -> Application:
    application = Application.objects.filter(client_id=client_id).first()
    if application is None:
        raise CommandError(f"There is no application with the client_id {client_id}. See `application list`.")
    return application


def _described(application: Application) -> dict[str, Any]:
    return {**fields.registered(application), "created": application.created.isoformat()}


# Text for a terminal -------------------------------------------------------------------------------------------------


def _json(result: Any, indent: int | None = None) -> str:
    return json.dumps(result, ensure_ascii=False, default=datetime.isoformat, indent=indent)


def _entry(entry: dict[str, Any]) -> str:
    at, cause = entry["time"][:19].replace("T", " "), f": {entry['cause']}" if entry["cause"] else ""
    parts = [
        f"{at} UTC  {entry['reference'] or '-':8}  {entry['step']} {entry['outcome']}{cause}",
        " ".join(entry[name] for name in ("client_id", "person", "address") if entry[name]),
    ]
    if "sent" in entry:
        differs = ", ".join(entry.get("differs", ()))
        parts.append(f"sent {entry['sent']}; nearest {entry.get('nearest') or 'none'} ({differs})")
    if entry["fix"]:
        parts.append(f"Fix: {entry['fix']}")
    return "\n    ".join(parts)


def _changed(each: dict[str, Any]) -> str:
    is_new = each["action"] == "register"
    lines = [f"{'new' if is_new else 'change'} {each['client_id']}  {shown(each['name'])}"]
    for name, after in each["after"].items():
        before = each["before"].get(name)
        if isinstance(after, list):
            lines += [f"  {name}: - {_word(value)}" for value in before or () if value not in after]
            lines += [f"  {name}: + {_word(value)}" for value in after if value not in (before or ())]
        else:
            lines.append(f"  {name}: {'' if is_new else _word(before) + ' -> '}{_word(after)}")
    if is_new and each["after"]["client_type"] == Application.CLIENT_CONFIDENTIAL:
        lines.append(f"  It has no secret yet: `application rotate-secret {each['client_id']}` makes one.")
    return "\n".join(lines)


def _word(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False))


def _audited(entry: dict[str, Any]) -> str:
    changes = [f"{name}: {entry['before'][name]} -> {after}" for name, after in entry["after"].items()]
    by = entry["actor"] + (f" from {entry['address']}" if entry["address"] else "")
    return "  ".join([entry["time"][:19], entry["action"], by, *changes, entry["reference"] or ""]).rstrip()


def _plain(result: dict[str, Any]) -> str:
    lines = []
    for name, value in result.items():
        if name in ("secrets", "older_secrets"):
            lines += [f"{'secret:':15} {secret_commands.line(one)}" for one in value]
        else:
            text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
            lines.append(f"{name + ':':15} {shown(text)}")
    return "\n".join(lines)


# By action, the text of one element of a result. `_plain` formats the results of the other actions.
TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "activity": _entry,
    "apply": _changed,
    "audit": _audited,
    "check": lambda each: shown(
        f"{'would fail' if each['would_fail'] else 'look at'}: {each['problem']} {each['fix']}".rstrip()
    ),
    "list": lambda each: f"{each['client_id']}  {shown(each['name'])}{'' if each['enabled'] else '  (disabled)'}",
    "secrets": secret_commands.line,
}
NOTHING = {"activity": "Nothing is recorded.", "apply": "no changes", "check": "Nothing is wrong."}
