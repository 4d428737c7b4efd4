"""Django's PostgreSQL backend with a health check that costs nothing while nothing has happened."""
