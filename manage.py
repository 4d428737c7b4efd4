#!/usr/bin/env python
"""Run a management command of the service."""

import os
import sys

# At the import, so that `python -c "import manage"` checks it before any package is installed.
if sys.version_info < (3, 11):  # noqa: UP036
    sentence = "Python 3.11 or newer is needed, and this is {}.{}. Install it and name it, such as python3.12."
    sys.exit(sentence.format(*sys.version_info))


# Their output is for whoever types them; the trail in the database keeps what they did.
TYPED = ("account", "application", "quickstart", "signing-key")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        import django  # noqa: F401
    except ImportError:
        sys.exit("Django is not installed for this Python: run .venv/bin/python manage.py, as README.md says.")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import InterfaceError, OperationalError, ProgrammingError

    from config import logs

    if sys.argv[1:2] and sys.argv[1] in TYPED:
        logs.keep_off_terminal()
    try:
        _ = settings.INSTALLED_APPS
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    try:
        " ".join(sys.argv).encode()
    except UnicodeEncodeError:
        sys.exit("An argument holds bytes that are not UTF-8.")
    try:
        execute_from_command_line(sys.argv)
        if sys.stdout:  # None: it was closed before the start
            sys.stdout.flush()
    except (OperationalError, InterfaceError, ProgrammingError) as error:
        reason = str(error).partition("\n")[0]
        is_locked = getattr(error.__cause__, "sqlstate", None) == "55P03" or reason == "database is locked"
        advice = "Try again later." if is_locked else "Is it there, and has `manage.py migrate` been run?"
        sys.exit(f"The database can't be used: {reason}. {advice}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # what reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
