"""The system checks of a deployment, each by its id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config import checks

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


def check(**changes: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={**kept, **PRODUCTION, **changes},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_documented_production_settings_pass_without_a_warning() -> None:
    checked = check()
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout


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
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_deployment_is_refused_by_number(changes: dict[str, str], number: str) -> None:
    checked = check(**changes)
    assert checked.returncode == 1
    assert number in checked.stderr


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_this_machine_needs_no_encryption(settings: Any, url: str) -> None:
    settings.AUTH_URL = settings.BASE_URL = url
    assert checks.addresses_are_https(None) == []


def test_every_check_is_in_the_operations_guide() -> None:
    guide = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for number in ("E001", "E002", "E003", "E004", "E005", "E006", "W001", "W002"):
        assert f"`{number}`" in guide or f"`config.{number}`" in guide
