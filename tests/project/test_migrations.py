"""The last release can serve on the next one's database. `tests.project.migration_rules` says what that forbids."""

from __future__ import annotations

import re

from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from tests.project.migration_rules import CONCURRENTLY, LARGE, LATER, faults

# Migrations that contract, and the release that was the first not to use what they remove.
CONTRACTED: dict[str, str] = {}


def test_the_last_release_can_serve_on_what_each_migration_leaves() -> None:
    loader = MigrationLoader(None)
    new_tables: set[str] = set()
    found = []
    for key in sorted(loader.graph.nodes):
        if key[0] in {"accounts", "oauth_bridge"} and ".".join(key) not in CONTRACTED:
            state = loader.project_state([key], at_end=False)
            found += faults(loader.graph.nodes[key], state, new_tables)
    assert found == []


def test_each_exception_and_each_large_table_exists() -> None:
    loader = MigrationLoader(None)
    names = {f"{app}.{name}" for app, name in loader.graph.nodes}
    assert set(CONTRACTED) <= names
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in CONTRACTED.values())
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
