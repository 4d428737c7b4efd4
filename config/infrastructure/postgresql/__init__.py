"""Django's PostgreSQL backend with kept cursors, a health check without a statement, and lock time-outs.

Only `base` and `url` import psycopg, which is a tenth of the time of a start: with SQLite neither is imported.
"""

import re
import sys
from pathlib import Path

from django.conf import settings

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
# A request fails instead of waiting longer for a locked row, for instance one of a client that has crashed.
LOCK_TIMEOUT_SECONDS = 5
# For requests. Commands have no such limit.
STATEMENT_TIMEOUT_SECONDS = 10
# Of the connections that this process opens.
timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}


def application_name() -> str:
    """What `pg_stat_activity` calls this process: the web server, or the command of `manage.py`."""
    is_command = Path(sys.argv[0]).name == "manage.py" and len(sys.argv) > 1
    command = sys.argv[1] if is_command and re.fullmatch(r"[a-z-]{1,30}", sys.argv[1]) else "manage.py"
    return f"sign-in {'web' if 'statement_timeout' in timeouts else command} {settings.VERSION}"


def limit_statements() -> None:
    """Cut off the statements of this process, which serves requests. Called before it opens a connection."""
    timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
