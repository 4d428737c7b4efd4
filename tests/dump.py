"""The whole database as text, to search for values that must not be in it."""

from __future__ import annotations

from django.db import connection


def database_text() -> str:
    """All values of all tables; binary ones as hexadecimal and as Latin-1."""
    parts: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for value in row:
                    is_binary = isinstance(value, bytes | memoryview)
                    raw = bytes(value) if is_binary else str(value).encode()
                    parts += [raw.decode("latin-1"), raw.hex() if is_binary else ""]
    return "\n".join(parts)
