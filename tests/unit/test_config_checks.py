"""The system checks of a deployment, each by its id."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config import checks
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.server import free_port
from tests.unit.test_config_environment import settings_with

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "BASE_URL": "https://api.example.com",
    "AUTH_URL": "https://auth.example.com",
    "SECRET_KEY": "a-key-for-this-test-and-for-nothing-else-0123456789-ABCDEFGHIJ",
    "DATABASE_URL": "postgres://service@db.example.com/service",
    "REDIS_URL": "redis://cache.example.com:6379/0",
    "EMAIL_URL": "smtp+tls://user:password@mail.example.com",
    "WEB_CONCURRENCY": "4",
}


@pytest.fixture
def deployed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`deployed(DEBUG="on")` uses the documented settings of a deployment with these changes."""

    def deploy(**changes: str) -> None:
        made = settings_with(monkeypatch, **{**PRODUCTION, **changes})
        for name in filter(str.isupper, made):
            if getattr(settings, name) != made[name]:
                setattr(settings, name, made[name])

    return deploy


@contract("O.deploy")
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")  # the checks read the setting, no connection
@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"AUTH_URL": "http://auth.example.com"}, "config.E001"),
        ({"BASE_URL": "http://api.example.com"}, "config.E002"),
        ({"SECRET_KEY": ""}, "config.E003"),
        ({"SECRET_KEY": "short"}, "config.E003"),
        ({"SECRET_KEY": "a" * 50}, "security.W009"),
        ({"DEBUG": "on"}, "config.E004"),
        ({"EMAIL_URL": ""}, "config.E005"),
        ({"REDIS_URL": ""}, "config.E006"),
        ({"DATABASE_URL": "sqlite:///:memory:"}, "config.W001"),
        ({"AUTH_URL": "https://192.0.2.1"}, "config.W002"),
        ({"DATABASE_URL": ""}, "config.W003"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_deployment_is_refused_by_number(
    changes: dict[str, str], number: str, deployed: Callable[..., None]
) -> None:
    deployed(**changes)
    with pytest.raises(SystemCheckError, match=number):
        call_command("check", deploy=True, fail_level="WARNING")


def test_missing_migrations_are_named(db: None) -> None:
    assert checks.database_is_migrated(None, databases=["default"]) == []
    for app, name in (("accounts", "0001_initial"), ("oauth_bridge", "0001_initial")):
        MigrationRecorder(connection).record_unapplied(app, name)
    [found] = checks.database_is_migrated(None, databases=["default"])
    assert found.id == "config.E007"
    assert "accounts.0001_initial, oauth_bridge.0001_initial" in found.msg


def test_an_empty_database_is_refused_and_one_that_does_not_answer_is_a_warning(committed: None) -> None:
    """The service can start before its database does."""
    for url, number in (("sqlite:///:memory:", "E007"), (f"postgres://127.0.0.1:{free_port()}/a", "W004")):
        with in_use(url):
            [found] = checks.database_is_migrated(None, databases=["default"])
        assert found.id == f"config.{number}"


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_this_machine_needs_no_encryption(settings: Any, url: str) -> None:
    settings.AUTH_URL = settings.BASE_URL = url
    assert not {"config.E001", "config.E002"} & {each.id for each in checks.deployment_is_safe(None)}


def test_every_check_is_in_the_operations_guide() -> None:
    guide = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for number in re.findall(r'"config\.([EW][0-9]{3})"', (ROOT / "config" / "checks.py").read_text(encoding="utf-8")):
        assert f"`{number}`" in guide or f"`config.{number}`" in guide
