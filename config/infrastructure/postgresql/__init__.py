"""Django's PostgreSQL backend, with cursors that are kept and a health check that runs no statement.

Only `base` and `url` import psycopg, because this import takes a tenth of the start-up time. With SQLite, neither of
the two modules is imported.
"""

FORM = "postgres://user:password@host:port/name"  # the form of DATABASE_URL
