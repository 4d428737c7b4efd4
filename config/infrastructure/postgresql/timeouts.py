"""How long PostgreSQL lets a statement run, and wait for a locked row or table."""

# A request fails instead of waiting longer for a locked row, for instance one of a client that has crashed.
LOCK_TIMEOUT_SECONDS = 5
# For requests. Commands have no such limit.
STATEMENT_TIMEOUT_SECONDS = 10
# Shorter than PostgreSQL's deadlock_timeout (1 s), so that in a deadlock the migration fails and not a request.
MIGRATION_LOCK_TIMEOUT_MS = 500
# Of the connections that this process opens.
session_timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}


def limit_statements() -> None:
    """Cut off the statements of this process, which serves requests. Called before it opens a connection."""
    session_timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
