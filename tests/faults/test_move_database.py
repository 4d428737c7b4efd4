"""`manage.py move-database` takes everything from SQLite to PostgreSQL. Contract, operator's interface."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, connections

from accounts.models import AuditEntry, StoredPicture, User
from accounts.pictures import stored_files
from tests.databases import Cluster, in_use
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, TokenFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def empty_database(own_postgresql: Cluster) -> str:
    """The URL of an empty database of the cluster."""
    name = f"moved_{uuid4().hex}"
    own_postgresql.administer(f"CREATE DATABASE {name} OWNER service")
    return f"{own_postgresql.url.rpartition('/')[0]}/{name}"


@pytest.fixture
def sqlite(empty_database: str, sqlite_template: Path, tmp_path: Path) -> Iterator[None]:
    path = tmp_path / "service.sqlite3"
    path.write_bytes(sqlite_template.read_bytes())
    with in_use(f"sqlite:///{path}"):
        yield


def move(url: str) -> str:
    output = io.StringIO()
    try:
        call_command("move-database", url, stdout=output)
    finally:
        if "target" in connections.settings:
            connections["target"].close()
            del connections["target"], connections.settings["target"]
    return output.getvalue()


def rows() -> dict[str, list[dict[str, Any]]]:
    """Each row of each table, by the table's name."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    return {model._meta.db_table: list(model._base_manager.order_by("pk").values()) for model in models}


def test_everything_is_copied_and_the_next_rows_have_numbers_of_their_own(sqlite: None, empty_database: str) -> None:
    alice, application = PersonFactory(), ApplicationFactory()
    alice.groups.create(name="Editors")
    for factory in (CodeFactory, TokenFactory, ConsentFactory):
        factory(user=alice, application=application.row)
    AuditEntry.objects.create(action="registered", kind="application", changes={"name": ["", "ä"]})
    stored_files.store("avatars/a.png", b"\x89PNG of a test")
    before = rows()
    assert "Everything is copied." in move(empty_database)
    assert rows() == before
    with in_use(empty_database):
        assert connection.vendor == "postgresql"
        assert rows() == before
        assert stored_files.read("avatars/a.png") == b"\x89PNG of a test"
        TokenFactory(user=alice, application=ApplicationFactory().row)
        AuditEntry.objects.create(action="changed", kind="application")


def test_a_database_with_rows_is_left_as_it_is(sqlite: None, empty_database: str) -> None:
    PersonFactory()
    move(empty_database)
    with pytest.raises(CommandError, match=r"Nothing is copied: the database has rows in [a-z_]+ already\."):
        move(empty_database)
    with in_use(empty_database):
        assert User.objects.count() == 1


def test_a_database_that_does_not_answer_is_named_without_its_password(sqlite: None) -> None:
    StoredPicture.objects.create(name="avatars/a.png", content=b"")
    with pytest.raises(CommandError, match="Nothing is copied") as refusal:
        move("postgres://service:hidden@127.0.0.1:1/service?connect_timeout=2")
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize("url", ["mysql://127.0.0.1/service", "postgres://service@127.0.0.1/", "sqlite:////tmp/x"])
def test_a_url_that_is_not_postgresql_is_refused(sqlite: None, url: str) -> None:
    with pytest.raises(CommandError, match="The URL must be postgres://"):
        move(url)


def test_postgresql_is_not_moved(own_postgresql: Cluster) -> None:
    with pytest.raises(CommandError, match="DATABASE_URL is not an SQLite database"):
        move(own_postgresql.url)
