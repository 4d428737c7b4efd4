"""Where the version of the service stands: readiness, the administration, the log, PostgreSQL's list of sessions."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from config.infrastructure.postgresql import timeouts
from config.infrastructure.postgresql.process_name import process_name
from tests.pages import admin_browser, html_of


@pytest.mark.django_db
def test_administrators_see_the_version_and_nobody_else_does(client: Client) -> None:
    words = f"Version {settings.VERSION}"
    assert words in html_of(admin_browser().get("/admin/"))
    for path in ("/accounts/sign-in", "/admin/login", "/admin/"):
        assert words not in html_of(client.get(path, follow=True))


def test_postgresql_is_told_which_command_it_serves_and_no_other_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, expected in (
        ("/srv/sign-in/manage.py signing-key list", "signing-key"),
        ("manage.py Postgres://user:secret@host", "manage.py"),
        ("manage.py", "manage.py"),
        ("pytest tests", "manage.py"),
    ):
        monkeypatch.setattr(sys, "argv", words.split())
        assert process_name() == f"sign-in {expected} {settings.VERSION}"
    monkeypatch.setitem(timeouts.session_timeouts, "statement_timeout", 10)
    assert process_name() == f"sign-in web {settings.VERSION}"


@pytest.mark.integration
@pytest.mark.django_db
def test_a_session_of_postgresql_has_the_name() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL: set DATABASE_URL to one")
    with connection.cursor() as cursor:
        cursor.execute("SHOW application_name")
        row: Any = cursor.fetchone()
    assert row[0].startswith("sign-in ")
    assert row[0].endswith(f" {settings.VERSION}")
