"""The output of `manage.py application check`. Contract, operator's interface."""

from __future__ import annotations

from typing import Any

from config.infrastructure.command_errors import shown
from oauth_bridge.applications.checks import Finding
from oauth_bridge.models import Application


def described(application: Application, found: list[Finding]) -> dict[str, Any]:
    return {
        "client_id": application.client_id,
        "name": application.name,
        "would_fail": any(each.would_fail for each in found),
        "findings": [each._asdict() for each in found],
    }


def text_of(found: list[Finding]) -> str:
    """Format the findings for a terminal, one line each."""
    lines = [
        shown(f"{'would fail' if each.would_fail else 'look at'}: {each.problem} {each.fix}".rstrip()) for each in found
    ]
    return "\n".join(lines) or "Nothing is wrong."
