"""What may not stand in a migration, because the last release serves on the migrated database, and goes on if the new
one is taken back.

A release adds what it needs (expand); a later one removes what no release uses any more (contract).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import migrations
from django.db.migrations.state import ProjectState

# They may have many rows: an index is built without a lock that keeps writers waiting.
LARGE = {
    "accounts.auditentry",
    "accounts.session",
    "accounts.user",
    "oauth_bridge.accesstoken",
    "oauth_bridge.activityrecord",
    "oauth_bridge.authorizationcode",
    "oauth_bridge.consent",
}
# Of a field: what changes no column.
ONLY_IN_PYTHON = {
    "blank",
    "choices",
    "db_default",
    "default",
    "editable",
    "error_messages",
    "help_text",
    "on_delete",
    "related_name",
    "validators",
    "verbose_name",
}
LATER = "The last release uses it. Stop using it, and remove it in the release after; then name it in CONTRACTED."
CONCURRENTLY = (
    "The table is large. Build the index concurrently on PostgreSQL: schema_editor.add_index(…, concurrently=True) in "
    "a migration with atomic = False."
)


def faults(migration: migrations.Migration, state: ProjectState, new_tables: set[str]) -> Iterator[str]:
    """A sentence for each operation that the last release or a large table does not stand.

    `state` is the one before the migration, and becomes the one after it. `new_tables` are those that no release has;
    the migration's own are added.
    """
    for operation in migration.operations:
        for each in getattr(operation, "database_operations", [operation]):
            if isinstance(each, migrations.CreateModel):
                new_tables.add(f"{migration.app_label}.{each.name_lower}")
            elif f"{migration.app_label}.{_table(each)}" not in new_tables:
                for reason in _faults(each, migration, state):
                    yield f"{migration.app_label}.{migration.name}, {each.describe()}: {reason}"
        operation.state_forwards(migration.app_label, state)


def _table(operation: Any) -> str:
    return str(getattr(operation, "model_name_lower", None) or getattr(operation, "name_lower", ""))


def _faults(operation: Any, migration: migrations.Migration, state: ProjectState) -> Iterator[str]:
    is_large = f"{migration.app_label}.{_table(operation)}" in LARGE
    match operation:
        case migrations.AddField(field=field):
            if not (field.many_to_many or field.null or field.has_db_default()):
                yield "The last release inserts rows without the column. Give it db_default or null."
            if is_large and (field.db_index or field.unique):
                yield CONCURRENTLY
        case migrations.AlterField():
            yield from _changes(operation, migration, state)
        case migrations.AddIndex() if is_large:
            yield CONCURRENTLY
        case migrations.AddConstraint():
            yield "The last release may store rows that the constraint forbids. Add it in a later release."
        case (
            migrations.RemoveField()
            | migrations.RenameField()
            | migrations.DeleteModel()
            | migrations.RenameModel()
            | migrations.RemoveConstraint()
            | migrations.AlterModelTable()
            | migrations.AlterUniqueTogether()
            | migrations.AlterIndexTogether()
        ):
            yield LATER
        case migrations.RunPython() | migrations.RunSQL() if migration.atomic:
            yield (
                "One transaction would lock all rows until its end. Change them in batches, in a migration with "
                "atomic = False that can be run again."
            )


def _changes(operation: Any, migration: migrations.Migration, state: ProjectState) -> Iterator[str]:
    before = state.models[migration.app_label, operation.model_name_lower].fields[operation.name]
    after = operation.field
    if before.null and not after.null:
        yield "The last release stores null. Forbid it in a later release."
    old, new = _column(before), _column(after)
    if old != new:
        yield "The column changes. Add a new one, write both, and remove the old one in a later release."


def _column(field: Any) -> Any:
    _, path, positional, named = field.deconstruct()
    kept = {name: str(value) for name, value in named.items() if name not in ONLY_IN_PYTHON | {"null"}}
    return path, positional, kept
