"""The commands of docs/operations.md, "From SQLite to PostgreSQL", take everything along."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from accounts.models import AuditEntry, StoredPicture
from tests.databases import Cluster, in_use, migrate
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, TokenFactory

pytestmark = pytest.mark.django_db(transaction=True)


def dumped(path: Path) -> list[str]:
    """Return the rows. Django writes whole milliseconds, and none if the stored time has no fraction of a second."""
    call_command("dumpdata", use_base_manager=True, format="jsonl", output=str(path), verbosity=0)
    return sorted(path.read_text().replace(".000Z", "Z").splitlines())


def test_everything_is_copied_and_new_rows_get_new_numbers(own_postgresql: Cluster, tmp_path: Path) -> None:
    name = f"moved_{uuid4().hex}"
    own_postgresql.administer(f"CREATE DATABASE {name} OWNER service")
    target = f"{own_postgresql.url.rpartition('/')[0]}/{name}"
    source = f"sqlite:///{tmp_path / 'service.sqlite3'}"
    migrate(source)
    with in_use(source):
        alice, application = PersonFactory(), ApplicationFactory()
        alice.groups.create(name="Editors")
        for factory in (CodeFactory, ConsentFactory):
            factory(user=alice, application=application.row)
        token = TokenFactory(user=alice, application=application.row)
        AuditEntry.objects.create(action="registered", kind="application", changes={"name": ["", "ä"]})
        StoredPicture.objects.create(name="avatars/a.png", content=b"\x89PNG of a test")
        before = dumped(tmp_path / "everything.jsonl")
    migrate(target)
    with in_use(target):
        connection.cursor().execute("TRUNCATE django_content_type CASCADE")
        call_command("loaddata", tmp_path / "everything.jsonl", verbosity=0)
        assert dumped(tmp_path / "again.jsonl") == before
        claims = Client().get("/oauth/userinfo", headers={"authorization": f"Bearer {token.raw}"}).json()
        assert claims["sub"] == str(alice.pk)
        TokenFactory(user=alice, application=ApplicationFactory().row)
        AuditEntry.objects.create(action="changed", kind="application")
