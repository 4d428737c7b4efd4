"""Statements written by hand: what goes in, and model instances from what comes out, at a fifth of `raw`'s price."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Model

M = TypeVar("M", bound=Model)


class Rows(Generic[M]):
    """A model's columns for a statement, and its instances from what the statement found.

    With `names`, only these fields are read; the others are deferred.
    """

    def __init__(self, model: type[M], *names: str) -> None:
        self._model = model
        self._fields = [field for field in model._meta.concrete_fields if not names or field.attname in names]
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
        return self._model.from_db(connection.alias, self._names, row)

    @functools.cached_property
    def _conversions(self) -> list[tuple[int, Callable[[Any], Any]]]:
        """What the database does not answer as Python has it: none for PostgreSQL, times and UUIDs for SQLite."""
        conversions: list[tuple[int, Callable[[Any], Any]]] = []
        for place, field in enumerate(self._fields):
            column = field.get_col(self._model._meta.db_table)
            for convert in (*connection.ops.get_db_converters(column), *column.get_db_converters(connection)):
                conversions.append((place, functools.partial(_converted, convert, column)))
        return conversions


def _converted(convert: Callable[..., Any], column: Any, value: Any) -> Any:
    return convert(value, column, connection)


def adapted(*values: object) -> list[Any]:
    """The values as this database takes them: SQLite wants its own spelling of times and UUIDs."""
    if connection.vendor == "postgresql":
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
