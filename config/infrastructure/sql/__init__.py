"""Run hand-written SQL, and make model instances from its rows. `Manager.raw` takes five times as long."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import DEFERRED, Field, Model

M = TypeVar("M", bound=Model)


class Rows(Generic[M]):
    """Columns of a model for a SELECT: the columns in `names` (by default all), except the columns in `without`."""

    def __init__(self, model: type[M], *names: str, without: Collection[str] = ()) -> None:
        self._model = model
        self._fields = [
            field
            for field in model._meta.concrete_fields
            if (not names or field.attname in names) and field.attname not in without
        ]
        self.names = [field.attname for field in self._fields]
        # A field of the model that is not in `names` gets DEFERRED, which `instance` appends to the row.
        places = {name: place for place, name in enumerate(self.names)}
        self._all_of = itemgetter(*(places.get(field.attname, -1) for field in model._meta.concrete_fields))

    def __len__(self) -> int:
        return len(self._fields)

    def columns(self, alias: str) -> str:
        return ", ".join(f"{alias}.{field.column}" for field in self._fields)

    def instance(self, values: Sequence[Any]) -> M:
        """Return a model instance. Pass the values in the order of `columns`. The model's other fields are deferred."""
        if not is_postgresql():
            values = tuple(map(_from_sqlite, self._fields, values))
        return self._model.from_db(DEFAULT_DB_ALIAS, self.names, self._all_of((*values, DEFERRED)))


def _from_sqlite(field: Field[Any, Any], value: Any) -> Any:
    value = None if value is None else field.to_python(value)  # None, too, for a row that a join did not find
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


@functools.cache
def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def fetch_one(statement: str, /, **values: object) -> Any:
    rows = fetch_all(statement, **values)
    return rows[0] if rows else None


def fetch_all(statement: str, /, **values: object) -> list[Any]:
    """Return all rows. Put no value in `statement`: PostgreSQL connections keep a cursor for each different text."""
    if is_postgresql():
        return connection.fetch_all(statement, values)  # type: ignore[attr-defined, no-any-return]
    with connection.cursor() as cursor:
        cursor.execute(statement, adapted(values))
        return cursor.fetchall()  # type: ignore[no-any-return]


def adapted(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values for the database driver. For SQLite, datetimes and UUIDs become texts."""
    return {name: value if is_postgresql() else _adapted_for_sqlite(value) for name, value in values.items()}


def as_uuid(value: UUID | str) -> UUID:
    """Return the value as a UUID. SQLite returns UUIDs as text."""
    return value if isinstance(value, UUID) else UUID(value)


def _adapted_for_sqlite(value: object) -> object:
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None))
    return value.hex if isinstance(value, UUID) else value
