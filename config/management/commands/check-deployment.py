"""`manage.py check-deployment`: print the problems of this installation and their fixes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config import deployment_checks
from config.infrastructure.texts import shown


class Command(BaseCommand):
    help = (
        "Connect to everything that the service uses, and say what is wrong. Ends with 1 if something is. Run it with "
        "the service's variables and as its user."
    )
    requires_system_checks: list[str] = []  # `deployment_checks.variables` runs these checks

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        found = []
        for finding in deployment_checks.findings():
            found.append(finding)
            if not as_json:
                self.stdout.write(
                    shown(f"{finding.status:<8} {finding.name}: {finding.message} {finding.fix}".rstrip())
                )
        has_failed = any(finding.status == "failed" for finding in found)
        if as_json:
            self.stdout.write(json.dumps({"ok": not has_failed, "checks": [each._asdict() for each in found]}))
        if has_failed:
            sys.exit(1)
