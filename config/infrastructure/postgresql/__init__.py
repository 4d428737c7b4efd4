"""Django's PostgreSQL backend with kept cursors, a health check without a statement, and lock time-outs."""
