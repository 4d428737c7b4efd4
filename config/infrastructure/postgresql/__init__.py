"""Django's PostgreSQL backend with kept cursors, a health check without a statement, and lock time-outs.

Only `base` and `url` import psycopg, which is a tenth of the time of a start: with SQLite neither is imported.
"""

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
# A request fails instead of waiting longer for a locked row, for instance one of a client that has crashed.
LOCK_TIMEOUT_SECONDS = 5
# For requests (config.wsgi). Commands have no such limit.
STATEMENT_TIMEOUT_SECONDS = 10
timeouts = {"lock_timeout": LOCK_TIMEOUT_SECONDS}
