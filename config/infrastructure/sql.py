"""Hand-written statements: their parameters, and model instances from their rows in a fifth of the time of `raw`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model

M = TypeVar("M", bound=Model)


class Rows(Generic[M]):
    """A model's columns for a statement, and its instances from the rows of the statement.

    With `names`, only these fields; never those in `without`. Django loads the others when they are used.
    """

    def __init__(self, model: type[M], *names: str, without: Collection[str] = ()) -> None:
        self._model = model
        self._fields = [
            field
            for field in model._meta.concrete_fields
            if (not names or field.attname in names) and field.attname not in without
        ]
        self._names = [field.attname for field in self._fields]

    def __len__(self) -> int:
        return len(self._fields)

    def columns(self, alias: str) -> str:
        return ", ".join(f"{alias}.{field.column}" for field in self._fields)

    def instance(self, values: Sequence[Any]) -> M:
        """The instance whose columns are `values`, in the order of `columns`."""
        row = list(values)
        for place, convert in self._conversions:
            row[place] = convert(row[place])
        return self._model.from_db(DEFAULT_DB_ALIAS, self._names, row)

    @functools.cached_property
    def _conversions(self) -> list[tuple[int, Callable[[Any], Any]]]:
        """Converters of columns that the driver does not convert: none for PostgreSQL, times and UUIDs for SQLite."""
        conversions: list[tuple[int, Callable[[Any], Any]]] = []
        for place, field in enumerate(self._fields):
            column = field.get_col(self._model._meta.db_table)
            for convert in (*connection.ops.get_db_converters(column), *column.get_db_converters(connection)):
                conversions.append((place, functools.partial(_converted, convert, column)))
        return conversions


def _converted(convert: Callable[..., Any], column: Any, value: Any) -> Any:
    return convert(value, column, connection)


@functools.cache
def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def fetch_one(statement: str, *values: object) -> Any:
    """The first row of the statement; None when there is none."""
    rows = fetch_all(statement, *values)
    return rows[0] if rows else None


def fetch_all(statement: str, *values: object) -> list[Any]:
    """All rows of the statement. For few and frequent statements: a cursor is kept for each (`kept_cursor`)."""
    if is_postgresql():
        return _executed(connection.kept_cursor(statement), statement, values)  # type: ignore[attr-defined]
    with connection.cursor() as cursor:
        return _executed(cursor, statement, adapted(*values))


def _executed(cursor: Any, statement: str, values: Sequence[object]) -> list[Any]:
    cursor.execute(statement, values)
    rows: list[Any] = cursor.fetchall()
    return rows


def adapted(*values: object) -> list[Any]:
    """The values as parameters for this database: SQLite needs times and UUIDs in its own format."""
    if is_postgresql():
        return list(values)
    operations = connection.ops
    taken: list[Any] = []
    for value in values:
        if isinstance(value, datetime):
            taken.append(operations.adapt_datetimefield_value(value))
        elif isinstance(value, UUID):
            taken.append(value.hex)
        else:
            taken.append(value)
    return taken
