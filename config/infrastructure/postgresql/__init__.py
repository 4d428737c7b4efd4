"""Django's PostgreSQL backend. It keeps cursors, and its health check runs no statement."""
