"""What tests of `manage.py application export` and `apply` share."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from oauth_bridge.models import Application

URI = "https://app.example/callback"
NEW = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32


def run(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    out, errors = io.StringIO(), io.StringIO()
    call_command("application", *arguments, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


class Apply:
    """`apply` of a file with this content."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "applications.json"

    def __call__(self, content: Any, *options: str) -> tuple[str, str]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.path.write_bytes(data)
        return run("apply", str(self.path), *options)

    def json(self, content: Any, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self(content, *options, "--json")[0])
        return found

    def refused(self, content: Any) -> str:
        before = list(Application.objects.order_by("pk").values())
        with pytest.raises(CommandError) as error:
            self(content)
        assert list(Application.objects.order_by("pk").values()) == before
        assert not Group.objects.filter(name="made").exists()
        return str(error.value)
