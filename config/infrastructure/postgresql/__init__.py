"""Django's PostgreSQL backend with kept cursors, and a health check without a statement.

Only `base` and `url` import psycopg, which is a tenth of the time of a start: with SQLite neither is imported.
"""

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
