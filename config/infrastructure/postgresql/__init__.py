"""Django's PostgreSQL backend with kept cursors, and a health check without a statement.

Only `base` and `url` import psycopg, which takes a tenth of the start. With SQLite neither is imported.
"""

FORM = "postgres://user:password@host:port/name"  # of DATABASE_URL
