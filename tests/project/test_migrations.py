"""The last release can serve on the next one's database: a migration only adds what it does not need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

# Migrations that contract, by the release that was the first not to use what they remove.
CONTRACTED: dict[str, str] = {}
# They may have many rows: an index is built without a lock that keeps writers waiting.
LARGE = {"accounts.auditentry", "accounts.session", "accounts.user"}
LARGE |= {f"oauth_bridge.{name}" for name in ("accesstoken", "activityrecord", "authorizationcode", "consent")}
LATER = "The last release uses it. Stop using it, and remove it in the release after; then name it in CONTRACTED."
CONCURRENTLY = "The table is large. Build the index on PostgreSQL by schema_editor.add_index(…, concurrently=True)."


def faults(migration: migrations.Migration, state: ProjectState, new_tables: set[str]) -> Iterator[str]:
    """Yield a sentence for each operation that the last release or a large table does not stand.

    `state`, of before the migration, becomes that of after it. Add the migration's tables to `new_tables`.
    """
    for operation in migration.operations:
        for each in getattr(operation, "database_operations", [operation]):
            name = getattr(each, "model_name_lower", None) or getattr(each, "name_lower", "")
            table = f"{migration.app_label}.{name}"
            if isinstance(each, migrations.CreateModel):
                new_tables.add(table)
            elif table not in new_tables and (reason := _fault(each, migration, table, state)):
                yield f"{migration.app_label}.{migration.name}, {each.describe()}: {reason}"
        operation.state_forwards(migration.app_label, state)


def _fault(operation: Any, migration: migrations.Migration, table: str, state: ProjectState) -> str:
    match operation:
        case migrations.AddField(field=field):
            if not (field.many_to_many or field.null or field.has_db_default()):
                return "The last release inserts rows without the column. Give it db_default or null."
            return CONCURRENTLY if table in LARGE and (field.db_index or field.unique) else ""
        case migrations.AlterField(field=field):
            before = state.models[migration.app_label, operation.model_name_lower].fields[operation.name]
            if _column(before) != _column(field) or (before.null and not field.null):
                return "The column changes. Add a new one, write both, and remove the old one in a later release."
            return ""
        case migrations.AddIndex():
            return CONCURRENTLY if table in LARGE else ""
        case migrations.AddConstraint():
            return "The last release may store rows that the constraint forbids. Add it in a later release."
        case migrations.RunPython() | migrations.RunSQL():
            return "Change the rows in batches, with atomic = False." if migration.atomic else ""
        case migrations.AlterModelOptions() | migrations.AlterModelManagers() | migrations.RemoveIndex():
            return ""
    return LATER


def _column(field: Any) -> Any:
    _, path, positional, named = field.deconstruct()
    in_python = {*field.non_db_attrs, "default", "db_default", "null"}
    return path, positional, {name: str(value) for name, value in named.items() if name not in in_python}


def test_the_last_release_can_serve_on_what_each_migration_leaves() -> None:
    loader, new_tables, found = MigrationLoader(None), set[str](), []
    for key in sorted(loader.graph.nodes):
        if key[0] in {"accounts", "oauth_bridge"} and ".".join(key) not in CONTRACTED:
            state = loader.project_state([key], at_end=False)
            found += faults(loader.graph.nodes[key], state, new_tables)
    assert found == []
    assert {f"{app}.{name}" for app, name in loader.graph.nodes} >= set(CONTRACTED)
    assert {".".join(key) for key in loader.project_state().models} >= LARGE


def test_what_the_last_release_does_not_stand_is_refused() -> None:
    state = ProjectState()
    for table in ("application", "consent"):
        fields = [("id", models.AutoField(primary_key=True)), ("name", models.CharField(max_length=40, null=True))]
        state.add_model(ModelState("oauth_bridge", table, fields))
    migration = migrations.Migration("9999_next", "oauth_bridge")
    for operation, reason in (
        (migrations.AddField("application", "new", models.IntegerField(default=1)), "db_default or null"),
        (migrations.AddField("consent", "new", models.IntegerField(null=True, db_index=True)), CONCURRENTLY),
        (migrations.SeparateDatabaseAndState([migrations.RemoveField("application", "name")]), LATER),
        (migrations.AlterField("application", "name", models.CharField(max_length=20, null=True)), "column changes"),
        (migrations.RunSQL("UPDATE oauth_bridge_consent SET name = ''"), "in batches"),
    ):
        migration.operations = [operation]
        [fault] = faults(migration, state, set())
        assert fault.startswith("oauth_bridge.9999_next, ")
        assert reason in fault
    allowed = models.CharField(max_length=40, null=True, blank=True, verbose_name="another")
    migration.operations = [migrations.AlterField("consent", "name", allowed)]
    assert list(faults(migration, state, set())) == []
