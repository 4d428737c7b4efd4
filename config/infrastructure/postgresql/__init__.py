"""Django's PostgreSQL backend. It keeps cursors, and its health check runs no statement.

Only `base` and `url` import psycopg, because this import takes a tenth of the start-up time. With SQLite, neither of
the two modules is imported.
"""

FORM = "postgres://user:password@host:port/name"  # the form of DATABASE_URL
