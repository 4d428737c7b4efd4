"""`manage.py application`: register and manage applications. Contract, operator's interface."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from accounts import audit_trail, groups
from config.infrastructure import events
from config.infrastructure.command_errors import command_error
from config.infrastructure.events import Event
from oauth_bridge.management import activity_listing, secret_commands
from oauth_bridge.models import Application
from oauth_bridge.storage import activity_reading, applications, look_alikes, secret_states
from oauth_bridge.storage.activity_reading import described

AUDITED = 1000


class Command(BaseCommand):
    help = "Register and manage applications."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        create = actions.add_parser("create", help="register an application and print its secret, once")
        create.add_argument("name")
        create.add_argument("--redirect-uri", action="append", required=True, dest="redirect_uris", metavar="URI")
        create.add_argument("--homepage", default="", metavar="URL")
        create.add_argument("--trusted", action="store_true", help="people are not asked (no consent page)")
        _add_group(create)
        activity = actions.add_parser("activity", help="the steps of sign-ins, the newest first, and what to change")
        activity_listing.add_arguments(activity)
        every = [create, activity, actions.add_parser("list", help="all applications")]
        audit = actions.add_parser("audit", help="who changed it, when, and how; the newest first")
        audit.add_argument("client_id", help="that of a deleted application, too")
        every.append(audit)
        for action, text in {
            "show": "one application",
            "set": "change what is given; the rest stays",
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
                _add_group(one)
            if action == "revoke-secret":
                one.add_argument("number", type=int, help="its number, as `application secrets` lists it")
                one.add_argument("--leaked", action="store_true", help="end every token that was made with it, too")
            if action == "rotate-secret":
                one.add_argument("--name", default="", help="a note, such as where it is used")
                ends = one.add_mutually_exclusive_group()
                ends.add_argument("--overlap", default="24h", help="how long the old one works: 30m, 24h, 7d (24h)")
                ends.add_argument("--now", action="store_true", help="end all older secrets at once, after a leak")
        for action_parser in every:
            action_parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, action: str, as_json: bool, **options: Any) -> None:
        if action == "activity":
            self._list_activity(as_json, options)
            return
        with audit_trail.by_command():
            result = self._result(action, options)
        self.stdout.write(json.dumps(result, ensure_ascii=False) if as_json else _plain(result))

    def _result(self, action: str, options: dict[str, Any]) -> Any:
        if action == "create":
            return self._create(options)
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
            self.stdout.write(json.dumps([described(entry) for entry in found], ensure_ascii=False))
        else:
            self.stdout.write("\n".join(activity_listing.line(entry) for entry in found) or "Nothing is recorded.")

    @transaction.atomic
    def _create(self, options: dict[str, Any]) -> dict[str, Any]:
        try:
            application, secret = applications.register(
                name=options["name"],
                redirect_uris=options["redirect_uris"],
                homepage=options["homepage"],
                is_trusted=options["trusted"],
                groups=groups.named(options["groups"] or [""]),
            )
        except ValidationError as problems:
            raise command_error(problems) from None
        for other in look_alikes.find(application.name, application.pk):
            self.stderr.write(f"People could take “{other.name}” ({other.client_id}) for this application.")
        return secret_commands.with_secret(application, secret)

    def _act(self, action: str, options: dict[str, Any]) -> Any:
        client_id = options["client_id"]
        application = _found(client_id)
        if action == "rotate-secret":
            return secret_commands.rotate(application, options)
        if action == "revoke-secret":
            return secret_commands.revoke(application, options, self.stderr)
        if action == "secrets":
            return [secret_commands.described(state) for state in secret_states.states(application)]
        if action == "set":
            _set(application, options)
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
    """Raises CommandError: there is no such application."""
    application = Application.objects.filter(client_id=client_id).first()
    if application is None:
        raise CommandError(f"There is no application with the client_id {client_id}. See `application list`.")
    return application


def _audited(client_id: str) -> list[dict[str, Any]]:
    """Raises CommandError: there never was such an application."""
    entries = audit_trail.entries("application", client_id, limit=AUDITED)
    if not entries:  # a deleted application may have entries
        _found(client_id)
    return [audit_trail.described(entry) for entry in entries]


def _add_group(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        action="append",
        dest="groups",
        metavar="NAME",
        help="only people in this group may use it; may be repeated, and replaces all; '' leaves none: everybody may",
    )


@transaction.atomic
def _set(application: Application, options: dict[str, Any]) -> None:
    """Change the fields that were given. Raises CommandError: none was given, or a value can't be stored."""
    changed = []
    try:
        if options["groups"] is not None:
            applications.set_groups(application, groups.named(options["groups"]))
            changed.append("groups")
    except ValidationError as problem:
        raise command_error(problem) from None
    if not changed:
        raise CommandError("Nothing to change was given. See `application set --help`.")
    events.write(Event.APPLICATION_CHANGED, client_id=application.client_id, fields=" ".join(changed))


def _described(application: Application) -> dict[str, Any]:
    return {
        "client_id": application.client_id,
        "name": application.name,
        "homepage": application.homepage,
        "redirect_uris": application.callback_addresses,
        "client_type": application.client_type,
        "trusted": application.is_trusted,
        "enabled": application.is_enabled,
        "restricted": application.is_restricted,
        "groups": sorted(group.name for group in application.groups.all()),
        "created": application.created.isoformat(),
    }


def _plain(result: Any) -> str:
    if isinstance(result, list) and result and "action" in result[0]:
        return "\n".join(_audit_line(one) for one in result)
    if isinstance(result, list) and result and "number" in result[0]:
        return "\n".join(secret_commands.line(one) for one in result)
    if isinstance(result, list):
        return "\n".join(
            f"{one['client_id']}  {one['name']}{'' if one['enabled'] else '  (disabled)'}" for one in result
        )
    lines = []
    for name, value in result.items():
        if name in ("secrets", "older_secrets"):
            lines += [
                f"{'secret ' + str(secret['id']) + ':':15} {secret_commands.ends_and_use(secret)}" for secret in value
            ]
        else:
            lines.append(f"{name + ':':15} {', '.join(value) if isinstance(value, list) else value}")
    return "\n".join(lines)


def _audit_line(entry: dict[str, Any]) -> str:
    changes = [f"{name}: {entry['before'][name]} -> {after}" for name, after in entry["after"].items()]
    by = entry["actor"] + (f" from {entry['address']}" if entry["address"] else "")
    return "  ".join([entry["time"][:19], entry["action"], by, *changes, entry["reference"] or ""]).rstrip()
