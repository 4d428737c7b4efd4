"""The time limits of PostgreSQL for a statement and for the wait for a locked row or table."""

from contextvars import ContextVar

# A request that waits longer for a locked row, such as that of a crashed client, fails.
LOCK_TIMEOUT_SECONDS = 5
# For requests. Commands have no limit for a statement, and more time for a lock.
STATEMENT_TIMEOUT_SECONDS = 10
REQUEST_LOCK_TIMEOUT_SECONDS = 2
# Requests wait behind a migration this long at most. Shorter than PostgreSQL's deadlock_timeout (1 s), so a
# deadlock makes the migration fail instead of a request.
MIGRATION_LOCK_TIMEOUT_MS = 200
# The limits of the connections that this process opens.
session_timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}

# The longest wait for an answer of a server that closes no connection, such as after SIGSTOP or a pooler without its
# database. No time-out of the server or of TCP ends this wait. 0: no limit, as for commands.
answer_seconds: ContextVar[float] = ContextVar("answer_seconds", default=0)


def limit_statements() -> None:
    """Limit the statements of a process that serves requests. Call this before it opens a connection."""
    session_timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
    session_timeouts["lock_timeout"] = REQUEST_LOCK_TIMEOUT_SECONDS
