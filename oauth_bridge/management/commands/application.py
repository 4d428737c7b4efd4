"""`manage.py application`: register and manage applications. Contract, operator's interface."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts import audit_trail
from config.infrastructure import json_streaming
from config.infrastructure.command_errors import shown
from oauth_bridge.applications import checks
from oauth_bridge.management import (
    activity_listing,
    check_report,
    configuration_changes,
    configuration_file,
    registration_commands,
    registration_fields,
    secret_commands,
)
from oauth_bridge.models import Application
from oauth_bridge.storage import activity_reading, applications, secret_rotation
from oauth_bridge.storage.activity_reading import OPERATOR, described

AUDITED = 1000


class Command(BaseCommand):
    help = "Register and manage applications."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        create = actions.add_parser("create", help="register an application and print its secret, once")
        registration_commands.add_create_arguments(create)
        activity = actions.add_parser("activity", help="the steps of sign-ins, the newest first, and what to change")
        activity_listing.add_arguments(activity)
        audit = actions.add_parser("audit", help="who changed it, when, and how; the newest first")
        audit.add_argument("client_id", help="that of a deleted application, too")
        apply = actions.add_parser("apply", help="store what differs in a file; applications not in it are left alone")
        apply.add_argument("file", metavar="FILE", help="as `export` prints it; - for standard input")
        apply.add_argument("--dry-run", action="store_true", help="print what differs, and store nothing")
        every = [create, activity, audit, apply, actions.add_parser("list", help="all applications")]
        every.append(actions.add_parser("export", help="all applications as JSON, without secrets and logos"))
        for action, text in {
            "show": "one application",
            "set": "change what is given; the rest stays",
            "check": "what would make a sign-in fail, and what is risky; ends with 1 if something would fail",
            "secrets": "its secrets, the newest first: number, name, maker, last use, end",
            "rotate-secret": "make a new secret and print it, once; the old one keeps working for a while",
            "revoke-secret": "end one secret at once",
            "disable": "disable it; its codes and tokens end at once",
            "enable": "enable it again; its earlier codes and tokens stay invalid",
            "delete": "delete it; its codes and tokens end at once",
        }.items():
            one = actions.add_parser(action, help=text)
            one.add_argument("client_id")
            every.append(one)
            if action == "set":
                registration_commands.add_set_arguments(one)
            if action in ("revoke-secret", "rotate-secret"):
                secret_commands.add_arguments(one, action)
        for action_parser in every:
            action_parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, action: str, as_json: bool, **options: Any) -> None:
        if action == "activity":
            self._list_activity(as_json, options)
            return
        if action == "export":
            for piece in json_streaming.pieces(configuration_file.exported()):
                self.stdout.write(piece, ending="")
            return
        if action == "check":
            self._check(_found(options["client_id"]), as_json)
            return
        with audit_trail.by_command():
            if action == "apply":
                self._apply(as_json, options)
                return
            result = self._result(action, options)
        self.stdout.write(json.dumps(result, ensure_ascii=False) if as_json else _plain(result))

    def _result(self, action: str, options: dict[str, Any]) -> Any:
        if action == "create":
            return registration_commands.create(options, self.stderr)
        if action == "list":
            return [_described(application) for application in Application.objects.prefetch_related("groups")]
        if action == "audit":
            return _audited(options["client_id"])
        return self._act(action, options)

    def _list_activity(self, as_json: bool, options: dict[str, Any]) -> None:
        filters = activity_listing.filters_of(options)
        if options["follow"]:
            with suppress(KeyboardInterrupt):
                for entry in activity_listing.follow(filters):
                    self.stdout.write(activity_listing.text_of(entry, as_json=as_json))
                    self.stdout.flush()
            return
        found = activity_reading.entries(filters)
        if filters.client_id and not found:  # a deleted application may have records
            _found(filters.client_id)
        if as_json:
            self.stdout.write(json.dumps([described(entry, OPERATOR) for entry in found], ensure_ascii=False))
        else:
            lines = [activity_listing.line(entry) for entry in found]
            self.stdout.write("\n".join(lines) or activity_listing.nothing(filters))

    def _apply(self, as_json: bool, options: dict[str, Any]) -> None:
        is_dry_run = options["dry_run"]
        changes = configuration_changes.apply(options["file"], is_dry_run=is_dry_run, warnings=self.stderr)
        if as_json:
            text = json.dumps([configuration_changes.described(each) for each in changes], ensure_ascii=False)
        else:
            text = configuration_changes.text_of(changes, is_dry_run=is_dry_run)
        self.stdout.write(text)

    def _check(self, application: Application, as_json: bool) -> None:
        found = checks.of_application(application)
        if as_json:
            self.stdout.write(json.dumps(check_report.described(application, found), ensure_ascii=False))
        else:
            self.stdout.write(check_report.text_of(found))
        if any(each.would_fail for each in found):
            raise CommandError(f"A sign-in to {shown(application.name)} would fail.")

    def _act(self, action: str, options: dict[str, Any]) -> Any:
        client_id = options["client_id"]
        application = _found(client_id)
        if action == "rotate-secret":
            return secret_commands.rotate(application, options)
        if action == "revoke-secret":
            return secret_commands.revoke(application, options, self.stderr)
        if action == "secrets":
            return [secret_commands.described(state) for state in secret_rotation.states(application)]
        if action == "set":
            registration_commands.change(application, options, self.stderr)
        if action in ("enable", "disable"):
            applications.set_enabled(application, action == "enable")
        described = _described(application)
        if action == "show":
            described["secrets"] = [secret_commands.brief(secret) for secret in application.secrets.all()]
        if action == "delete":
            applications.delete(application)
            described["deleted"] = True
        return described


def _found(client_id: str) -> Application:
    """Return the application. Raises CommandError: no application has this client_id."""
    application = Application.objects.filter(client_id=client_id).first()
    if application is None:
        raise CommandError(f"There is no application with the client_id {client_id}. See `application list`.")
    return application


def _audited(client_id: str) -> list[dict[str, Any]]:
    """Return the audit trail of an application. Raises CommandError: no application ever had this client_id."""
    entries = audit_trail.entries("application", client_id, limit=AUDITED)
    if not entries:  # a deleted application may have entries
        _found(client_id)
    return [audit_trail.described(entry) for entry in entries]


def _described(application: Application) -> dict[str, Any]:
    return {**registration_fields.registered(application), "created": application.created.isoformat()}


def _plain(result: Any) -> str:
    if isinstance(result, list) and result and "action" in result[0]:
        return "\n".join(_audit_line(one) for one in result)
    if isinstance(result, list) and result and "number" in result[0]:
        return "\n".join(secret_commands.line(one) for one in result)
    if isinstance(result, list):
        return "\n".join(
            f"{one['client_id']}  {shown(one['name'])}{'' if one['enabled'] else '  (disabled)'}" for one in result
        )
    lines = []
    for name, value in result.items():
        if name in ("secrets", "older_secrets"):
            lines += [
                f"{'secret ' + str(secret['id']) + ':':15} {secret_commands.ends_and_use(secret)}" for secret in value
            ]
        else:
            lines.append(f"{name + ':':15} {_word(value)}")
    return "\n".join(lines)


def _word(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
    return shown(text)


def _audit_line(entry: dict[str, Any]) -> str:
    changes = [f"{name}: {entry['before'][name]} -> {after}" for name, after in entry["after"].items()]
    by = entry["actor"] + (f" from {entry['address']}" if entry["address"] else "")
    return "  ".join([entry["time"][:19], entry["action"], by, *changes, entry["reference"] or ""]).rstrip()
