"""`manage.py application`: register and look after applications. Contract, operator's interface."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from oauth_bridge import applications
from oauth_bridge.models import Application


class Command(BaseCommand):
    help = "Register applications and look after them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        create = actions.add_parser("create", help="register an application and print its secret, once")
        create.add_argument("name")
        create.add_argument("--redirect-uri", action="append", required=True, dest="redirect_uris", metavar="URI")
        create.add_argument("--homepage", default="", metavar="URL")
        create.add_argument("--trusted", action="store_true", help="people are not asked (no consent page)")
        every = [create, actions.add_parser("list", help="all applications")]
        for action, text in {
            "show": "one application",
            "rotate-secret": "replace the secret and print the new one, once",
            "disable": "refuse its codes and tokens from now on",
            "enable": "take it back into use",
            "delete": "delete it with everything it holds",
        }.items():
            one = actions.add_parser(action, help=text)
            one.add_argument("client_id")
            every.append(one)
        for action_parser in every:
            action_parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, action: str, as_json: bool, **options: Any) -> None:
        if action == "create":
            result: Any = self._create(options)
        elif action == "list":
            result = [_described(application) for application in Application.objects.all()]
        else:
            result = self._act(action, options["client_id"])
        self.stdout.write(json.dumps(result, ensure_ascii=False) if as_json else _plain(result))

    def _create(self, options: dict[str, Any]) -> dict[str, Any]:
        try:
            application, secret = applications.create(
                name=options["name"],
                redirect_uris=options["redirect_uris"],
                homepage=options["homepage"],
                is_trusted=options["trusted"],
            )
        except ValidationError as problems:
            raise CommandError(" ".join(problems.messages)) from None
        return _with_secret(application, secret)

    def _act(self, action: str, client_id: str) -> dict[str, Any]:
        application = Application.objects.filter(client_id=client_id).first()
        if application is None:
            raise CommandError(f"There is no application with the client_id {client_id}. See `application list`.")
        if action == "rotate-secret":
            if application.client_type == Application.CLIENT_PUBLIC:
                raise CommandError("This application is public: it has no secret.")
            return _with_secret(application, applications.rotate_secret(application))
        if action in ("enable", "disable"):
            applications.set_enabled(application, action == "enable")
        described = _described(application)
        if action == "delete":
            applications.delete(application)
            described["deleted"] = True
        return described


def _with_secret(application: Application, secret: str) -> dict[str, Any]:
    return {
        "client_id": application.client_id,
        "client_secret": secret,
        "name": application.name,
        "redirect_uris": application.callback_addresses,
    }


def _described(application: Application) -> dict[str, Any]:
    return {
        "client_id": application.client_id,
        "name": application.name,
        "homepage": application.homepage,
        "redirect_uris": application.callback_addresses,
        "client_type": application.client_type,
        "trusted": application.is_trusted,
        "enabled": application.is_enabled,
        "created": application.created.isoformat(),
    }


def _plain(result: Any) -> str:
    if isinstance(result, list):
        return "\n".join(
            f"{one['client_id']}  {one['name']}{'' if one['enabled'] else '  (disabled)'}" for one in result
        )
    lines = []
    for name, value in result.items():
        lines.append(f"{name + ':':15} {', '.join(value) if isinstance(value, list) else value}")
    return "\n".join(lines)
