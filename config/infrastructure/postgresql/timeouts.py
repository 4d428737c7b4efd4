"""The time limits that PostgreSQL has for statements and for waits for locks, in seconds."""

# A statement fails if it waits longer than this for a lock, such as the lock of a crashed client.
LOCK_TIMEOUT_SECONDS = 5
# These limits apply to requests. In commands, a statement has no limit, because a migration may take hours.
STATEMENT_TIMEOUT_SECONDS = 10
REQUEST_LOCK_TIMEOUT_SECONDS = 2
# The limits of the connections that this process opens.
session_timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}


def limit_statements() -> None:
    """Limit the statements of a process that serves requests. Call this before it opens a connection."""
    session_timeouts["statement_timeout"] = STATEMENT_TIMEOUT_SECONDS
    session_timeouts["lock_timeout"] = REQUEST_LOCK_TIMEOUT_SECONDS
