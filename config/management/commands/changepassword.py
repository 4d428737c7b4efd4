"""Refuse `manage.py changepassword`, because Django's command would leave sessions, codes and tokens valid."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Not used here: see `manage.py account set-password`."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", nargs="?")

    def handle(self, *args: Any, **options: Any) -> NoReturn:
        raise CommandError(
            "Use manage.py account set-password EMAIL --password-stdin, which also ends sessions, codes and tokens."
        )
