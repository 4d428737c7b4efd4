"""The name of a process of the service in `pg_stat_activity`."""

import re
import sys
from pathlib import Path

from django.conf import settings

from config.infrastructure.postgresql.timeouts import session_timeouts


def process_name() -> str:
    """Return `web` or the command of `manage.py`, with the version, such as `sign-in purge 0.2.0`."""
    is_command = Path(sys.argv[0]).name == "manage.py" and len(sys.argv) > 1
    command = sys.argv[1] if is_command and re.fullmatch(r"[a-z-]{1,30}", sys.argv[1]) else "manage.py"
    return f"sign-in {'web' if 'statement_timeout' in session_timeouts else command} {settings.VERSION}"
