"""Django's PostgreSQL backend with kept cursors, a health check without a statement, and lock time-outs.

Only `base` and `url` import psycopg, which is a tenth of the time of a start: with SQLite neither is imported.
"""

from contextvars import ContextVar

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
# A request fails instead of waiting longer for a locked row, for instance one of a client that has crashed.
LOCK_TIMEOUT_SECONDS = 5
# For requests. Commands have no limit for a statement, and more time for a lock.
STATEMENT_TIMEOUT_SECONDS = 10
REQUEST_LOCK_TIMEOUT_SECONDS = 2
# Of the connections that this process opens.
timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}

# The longest wait for an answer of a server that closes no connection (SIGSTOP, a pooler whose database is away):
# neither a time-out of the server nor one of TCP ends it. 0: no limit, as for commands.
answer_seconds: ContextVar[float] = ContextVar("answer_seconds", default=0)


def limit_statements() -> None:
    """Cut off the statements of this process, which serves requests. Called before it opens a connection."""
    timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
    timeouts["lock_timeout"] = REQUEST_LOCK_TIMEOUT_SECONDS
