"""The commands of the service. Others, of libraries, are refused: they would leave tokens valid, or store unused data.

Django takes a command from the app that INSTALLED_APPS names first, for `manage.py` and `django-admin` alike.
"""

import sys

from django.core.management.base import BaseCommand


def refused(instead: str) -> type[BaseCommand]:
    """Return a command that replaces a library's, and ends with the sentence `instead`, whatever its arguments are."""

    class Command(BaseCommand):
        help = instead

        def run_from_argv(self, argv: list[str]) -> None:
            sys.exit(instead)

    return Command
