"""Django's PostgreSQL backend. Its health check runs no statement."""
