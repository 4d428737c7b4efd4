"""`manage.py move-database URL`: copy everything from SQLite into an empty PostgreSQL database."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import Model

from config.infrastructure import postgresql
from config.infrastructure.postgresql.url import entry

TARGET = "target"
# The number of rows in one statement. A row with a picture has up to a megabyte; most other rows have less than a
# kilobyte.
BATCH = 200


class Command(BaseCommand):
    help = (
        "Copy everything from the SQLite database of DATABASE_URL into an empty PostgreSQL database. Stop the service "
        "before, and start it with the new DATABASE_URL afterwards. The SQLite database stays as it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help=postgresql.FORM)

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        """Copy all rows in one transaction, during which the SQLite database cannot be written.

        Raises CommandError: DATABASE_URL is not SQLite, the URL is malformed, or the database of the URL does not
        answer or already has rows.
        """
        if connection.vendor != "sqlite":
            raise CommandError("DATABASE_URL is not an SQLite database. To move PostgreSQL, use pg_dump and psql.")
        try:
            if not url.lower().startswith(("postgres://", "postgresql://")):
                raise ValueError
            connections.settings[TARGET] = connections.configure_settings({"default": entry(url)})["default"]
        except (ValueError, ImproperlyConfigured) as error:
            raise CommandError(f"The URL must be {postgresql.FORM}{error}.") from None
        call_command("migrate", verbosity=0)
        try:
            call_command("migrate", database=TARGET, verbosity=0)
            with transaction.atomic(), transaction.atomic(TARGET):
                self._copy_all()
        except DatabaseError as error:
            raise CommandError(f"Nothing is copied: {str(error).strip()}") from error
        self.stdout.write("Everything is copied. Set DATABASE_URL to this database, and start the service.")

    def _copy_all(self) -> None:
        models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
        # `migrate` has filled the tables of permissions and content types. Their rows are replaced, because other rows
        # refer to the primary keys of the source.
        made = (Permission, ContentType)
        for model in models:
            if model not in made and model._base_manager.using(TARGET).exists():
                raise CommandError(f"Nothing is copied: the database has rows in {model._meta.db_table} already.")
        for model in made:
            model._base_manager.using(TARGET).all().delete()
        for model in models:
            count = sum(_write(model, rows) for rows in _batches(_read(model)))
            if count:
                self.stdout.write(f"{model._meta.db_table}: {count:,}")
        with connections[TARGET].cursor() as cursor:
            for statement in connections[TARGET].ops.sequence_reset_sql(no_style(), models):
                cursor.execute(statement)


def _read(model: type[Model]) -> Iterator[Model]:
    return model._base_manager.using("default").order_by("pk").iterator(BATCH)


def _batches(rows: Iterator[Model]) -> Iterator[list[Model]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _write(model: type[Model], rows: list[Model]) -> int:
    """Insert the rows unchanged, without `save`, signals or updated times. Return the number of rows."""
    target, fields = connections[TARGET], model._meta.local_concrete_fields
    name = target.ops.quote_name
    columns, places = ", ".join(name(field.column) for field in fields), ", ".join(["%s"] * len(fields))
    statement = f"INSERT INTO {name(model._meta.db_table)} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({places})"  # noqa: S608  (names of ours)
    values = [[field.get_db_prep_save(getattr(row, field.attname), target) for field in fields] for row in rows]
    with target.cursor() as cursor:
        cursor.executemany(statement, values)
    return len(rows)
