"""Rules for the source: imports, templates, addresses, translations, and migrations that the last release stands."""

from __future__ import annotations

import gettext
import pkgutil
import re
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse
from django.utils.translation import to_locale

from config.infrastructure import paths
from oauth_bridge.views import unknown_path
from tests.grants import example_paths

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.*"))


def test_the_layers_of_import_linter_name_every_module_of_the_wiring() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    wiring = contracts["importlinter:contract:packages"]["layers"].split("\n")[1]
    modules = {path.name for path in pkgutil.iter_modules([str(ROOT / "config")])} - {"infrastructure"}
    assert sorted(wiring.split(" : ")) == sorted(f"config.{name}" for name in modules)


def test_templates_hold_no_style_no_script_and_no_other_host() -> None:
    own_script = re.compile(r"<script src=\"\{% static '[^']+' %\}\"[^>]*></script>")
    foreign = re.compile(" style=|<style|<script|https?://| onclick=|javascript:")
    texts = [(path.name, own_script.sub("", path.read_text(encoding="utf-8"))) for path in TEMPLATES]
    found = [(name, word) for name, text in texts for word in foreign.findall(text)]
    # Programs that show e-mails load no style sheet.
    assert {*found} <= {("_html.html", " style=")}


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "") -> list[tuple[str, URLPattern]]:
    found: list[tuple[str, URLPattern]] = []
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            found.append((route, pattern))
        elif not route.startswith("admin/"):
            found += addresses(pattern.url_patterns, route)
    return found


def test_no_address_ends_in_a_slash_and_each_name_that_a_template_uses_is_one() -> None:
    routes = {pattern.name: route for route, pattern in addresses(get_resolver().url_patterns) if pattern.name}
    assert routes["authorize"] == "oauth/authorize"
    assert [route for route in routes.values() if route.rstrip("$").endswith("/")] == []
    used = {name for path in TEMPLATES for name in re.findall(r"\{% url '([^']+)'", path.read_text(encoding="utf-8"))}
    assert [name for name in sorted(used) if name not in routes and not name.startswith("admin:")] == []


def test_a_path_that_exists_is_known() -> None:
    existing = {path for path in example_paths() if resolve(path).func is not unknown_path}
    existing.add(f"{settings.STATIC_URL}css/site.css")
    assert [path for path in existing if paths.kind_of(path) in (paths.NOWHERE, paths.NO_OPERATION)] == []
    assert len(existing) > 60
    names = "authorize token userinfo jwks revoke introspect end_session openid_configuration server_metadata"
    assert tuple(reverse(name) for name in names.split()) == paths.OPERATIONS


LOCALES = [to_locale(code) for code, _name in settings.LANGUAGES if code != "en"]
# Tags, and what Python or Django inserts.
PARTS = re.compile(r"</?[a-z]+\b[^>]*>|%\([a-z_]+\)[sd]|\{[a-z_]*\}|%%")

needs_gettext = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs Debian's gettext")


def messages(compiled: Path) -> dict[str, str]:
    """Return the translation of each msgid; "" if it has a plural, which may leave the number out."""
    with compiled.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog.items()  # type: ignore[attr-defined]
    found = {key[0] if isinstance(key, tuple) else key: "" if isinstance(key, tuple) else to for key, to in catalogue}
    del found[""]  # the header
    return found


@needs_gettext
def test_no_translation_is_fuzzy_left_over_or_inserts_something_else(tmp_path: Path) -> None:
    wrong: list[object] = []
    assert sorted(path.parents[1].name for path in ROOT.glob("locale/*/LC_MESSAGES/django.po")) == sorted(LOCALES)
    for locale in LOCALES:
        catalogue, made = ROOT / "locale" / locale / "LC_MESSAGES" / "django.po", tmp_path / f"{locale}.mo"
        subprocess.run(["msgfmt", "--check", "-o", made, catalogue], check=True)
        assert made.read_bytes() == catalogue.with_suffix(".mo").read_bytes(), locale
        wrong += re.findall(r"^#~ .*|^#, .*fuzzy.*", catalogue.read_text(encoding="utf-8"), re.MULTILINE)
        found = messages(made)
        assert len(found) > 400
        parts = {text: set(PARTS.findall(text)) for pair in found.items() for text in pair}
        wrong += [
            (locale, text) for text, translated in found.items() if translated and parts[text] != parts[translated]
        ]
    assert wrong == []


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
    state = MigrationLoader(None).project_state()
    migration = migrations.Migration("9999_next", "oauth_bridge")
    for operation, reason in (
        (migrations.AddField("application", "new", models.IntegerField(default=1)), "db_default or null"),
        (migrations.AddField("consent", "new", models.IntegerField(null=True, db_index=True)), CONCURRENTLY),
        (migrations.SeparateDatabaseAndState([migrations.RemoveField("application", "name")]), LATER),
        (migrations.AlterField("application", "name", models.CharField(max_length=20)), "column changes"),
        (migrations.RunSQL("UPDATE oauth_bridge_consent SET name = ''"), "in batches"),
    ):
        migration.operations = [operation]
        [fault] = faults(migration, state, set())
        assert fault.startswith("oauth_bridge.9999_next, ")
        assert reason in fault
    allowed = models.CharField(max_length=20, blank=True, verbose_name="another")
    migration.operations = [migrations.AlterField("application", "name", allowed)]
    assert list(faults(migration, state, set())) == []
