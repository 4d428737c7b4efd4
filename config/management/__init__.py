"""The commands of the service, and those of libraries that it refuses.

Those would leave codes and tokens valid, store an application without a secret, or find no rows. Django takes the
command of the app that INSTALLED_APPS names first, for `manage.py` and `django-admin` alike.
"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError


def refused(instead: str) -> type[BaseCommand]:
    """Return a command that takes the place of a library's, and ends with this sentence whatever its arguments are."""

    class Command(BaseCommand):
        help = instead

        def run_from_argv(self, argv: list[str]) -> None:
            sys.exit(instead)

        def handle(self, *args: Any, **options: Any) -> None:
            raise CommandError(instead)

    return Command
