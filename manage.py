#!/usr/bin/env python
"""Run a management command of the service."""

import os
import sys

# At the import, so that `python -c "import manage"` checks it before any package is installed.
if sys.version_info < (3, 11):  # noqa: UP036
    sentence = "Python 3.11 or newer is needed, and this is {}.{}. Install it and name it, such as python3.12."
    sys.exit(sentence.format(*sys.version_info))


# What to do about errors of PostgreSQL, by SQLSTATE: a locked row, a missing right, a character that is not in LATIN1.
ADVICE = {
    "55P03": "Try again later.",
    "42501": "Let the role of DATABASE_URL own the database: ALTER DATABASE … OWNER TO …",
    "22P05": "Use a database in UTF-8: createdb --encoding UTF8 --template template0",
}

# Their output is for whoever types them; the trail in the database keeps what they did.
TYPED = ("account", "application", "quickstart", "signing-key")

# Commands of libraries that would leave tokens valid, or store data that the service does not use. django-admin
# would run them.
REFUSED = {
    "changepassword": "account set-password EMAIL --password-stdin: it ends sessions, codes and tokens too.",
    "clearcimdapplications": "application delete: no application registers itself here.",
    "cleartokens": "purge.",
    "createapplication": "application create NAME --redirect-uri URI: it prints client_id and secret.",
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        import django  # noqa: F401
    except ImportError:
        sys.exit("Django is not installed for this Python: run .venv/bin/python manage.py, as README.md says.")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError, DataError, IntegrityError, InterfaceError

    from config import logs

    command = "".join(sys.argv[1:2])
    if command in REFUSED:
        sys.exit(f"Use manage.py {REFUSED[command]}")
    if command in TYPED:
        logs.keep_off_terminal()
    try:
        _ = settings.INSTALLED_APPS
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except (DatabaseError, InterfaceError) as error:
        # `migrate` raises an error of its own while it handles that of the database.
        cause = error.__cause__ or (error.__context__ and error.__context__.__cause__) or error
        state, reason = getattr(cause, "sqlstate", None), str(cause).partition("\n")[0]
        if isinstance(error, DataError | IntegrityError) and state not in ADVICE:
            raise
        advice = ADVICE.get("55P03" if reason == "database is locked" else str(state))
        advice = advice or "Is it there, and has `manage.py migrate` been run?"
        sys.exit(f"The database can't be used: {reason}. {advice}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # what reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
