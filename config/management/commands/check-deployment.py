"""`manage.py check-deployment`: print the problems of this installation and their fixes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email

from config.deployment import database, files, mails, outside, redis_state
from config.deployment.findings import Finding, bounded, failed, ok, skipped, warning
from config.infrastructure.command_errors import shown


class Command(BaseCommand):
    help = (
        "Connect to everything that the service uses, and to the service as people reach it, and say what is wrong. "
        "Ends with 1 if something is. Run it with the service's variables and as its user, while the service runs."
    )
    requires_system_checks: list[str] = []  # `_settings` runs these checks

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
        parser.add_argument("--mail", metavar="ADDRESS", default="", help="send one mail to this address; else none")
        parser.add_argument(
            "--from",
            metavar="ADDRESS",
            default="",
            dest="own_address",
            help="this machine's address outside, behind NAT",
        )

    def handle(self, *args: Any, as_json: bool, mail: str, own_address: str, **options: Any) -> None:
        _require_valid(mail, own_address)
        found = []
        for finding in _findings(mail, own_address):
            found.append(finding)
            if not as_json:
                self.stdout.write(_line(finding))
        has_failed = any(finding.status == "failed" for finding in found)
        if as_json:
            self.stdout.write(json.dumps({"ok": not has_failed, "checks": [each._asdict() for each in found]}))
        if has_failed:
            sys.exit(1)


def _require_valid(mail: str, own_address: str) -> None:
    try:
        if mail:
            validate_email(mail)
    except ValidationError:
        raise CommandError("--mail must be an e-mail address.") from None
    try:
        if own_address:
            ip_address(own_address)
    except ValueError:
        raise CommandError("--from must be an IP address.") from None


def _findings(mail: str, own_address: str) -> Iterator[Finding]:
    """Yield each finding as soon as it is known."""
    yield from _settings()
    yield from files.secret_key()
    yield from bounded("database", database.findings, waits=3)
    yield from bounded("redis", redis_state.findings, waits=2)
    yield from bounded("mail", partial(mails.findings, mail), waits=4 if mail else 2)
    yield from bounded("audit_log", files.audit_log)
    of_address = partial(outside.findings, own_address=own_address)
    yield from bounded("auth_url", partial(of_address, "auth_url", settings.AUTH_URL), outside.WAITS)
    if settings.BASE_URL == settings.AUTH_URL:
        yield skipped("base_url", "BASE_URL is AUTH_URL.")
    else:
        yield from bounded("base_url", partial(of_address, "base_url", settings.BASE_URL), outside.WAITS)


def _settings() -> list[Finding]:
    """Return the findings of `manage.py check --deploy`."""
    found = checks.run_checks(include_deployment_checks=True)
    told = [
        (failed if each.is_serious() else warning)(str(each.id), each.msg, each.hint or "")
        for each in found
        if not each.is_silenced()
    ]
    return told or [ok("settings", "The variables fit one another.")]


def _line(finding: Finding) -> str:
    return shown(f"{finding.status:<8} {finding.name}: {finding.message} {finding.fix}".rstrip())
