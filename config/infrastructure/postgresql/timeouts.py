"""The time limits of PostgreSQL for a statement and for the wait for a locked row or table."""

from contextvars import ContextVar

# A statement fails if it waits longer than this for a lock, such as the lock of a crashed client.
LOCK_TIMEOUT_SECONDS = 5
# These limits apply to requests. In commands, a statement has no limit, and the wait for a lock is limited to
# LOCK_TIMEOUT_SECONDS.
STATEMENT_TIMEOUT_SECONDS = 10
REQUEST_LOCK_TIMEOUT_SECONDS = 2
# A migration waits at most this long for a lock. Requests that need the same table wait as long. The limit is shorter
# than PostgreSQL's deadlock_timeout (1 s), so that a deadlock makes the migration fail instead of a request.
MIGRATION_LOCK_TIMEOUT_MS = 200
# The limits of the connections that this process opens.
session_timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}

# The longest wait for an answer of a server that keeps the connection open, such as a server after SIGSTOP or a pooler
# that has lost its database. No time-out of the server or of TCP ends this wait. 0 means no limit, as in commands.
answer_seconds: ContextVar[float] = ContextVar("answer_seconds", default=0)


def limit_statements() -> None:
    """Limit the statements of a process that serves requests. Call this before it opens a connection."""
    session_timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
    session_timeouts["lock_timeout"] = REQUEST_LOCK_TIMEOUT_SECONDS
