"""The commands of the service. Those of libraries would leave tokens valid, or store what no code reads.

Django takes a command from the app that INSTALLED_APPS names first, for `manage.py` and `django-admin` alike.
"""

import sys

from django.core.management.base import BaseCommand


def refused(instead: str) -> type[BaseCommand]:
    """Return a command that takes the place of a library's, and ends with this sentence, whatever its arguments are."""

    class Command(BaseCommand):
        help = instead

        def run_from_argv(self, argv: list[str]) -> None:
            sys.exit(instead)

    return Command
