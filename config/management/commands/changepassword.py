"""`manage.py changepassword` of Django would leave codes and tokens valid, so it is refused.

Django takes a command from the app that INSTALLED_APPS names first, for `manage.py` and `django-admin` alike.
"""

import sys

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Use manage.py account set-password EMAIL --password-stdin: it ends sessions, codes and tokens too."

    def run_from_argv(self, argv: list[str]) -> None:
        sys.exit(self.help)
