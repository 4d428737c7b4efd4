"""Django's PostgreSQL backend with kept cursors, a health check without a statement, and lock time-outs.

Only `base` and `url` import psycopg, which is a tenth of the time of a start: with SQLite neither is imported.
"""

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
# A request fails instead of waiting longer for a locked row, for instance one of a client that has crashed.
LOCK_TIMEOUT_SECONDS = 5
# For requests. Commands have no such limit.
STATEMENT_TIMEOUT_SECONDS = 10
# Of the connections that this process opens.
timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}


def limit_statements() -> None:
    """Cut off the statements of this process, which serves requests. Called before it opens a connection."""
    timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
