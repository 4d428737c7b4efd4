"""The whole database as text, to look for what must not be in it."""

from __future__ import annotations

from django.db import connection


def database_text() -> str:
    """Every value of every table, binary ones as hexadecimal and as they are."""
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
