"""Replace the toolkit's commands that would fail here or would create rows that the service can't use."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError


class ReplacedCommand(BaseCommand):
    """A command that always raises CommandError, which names the command to use instead."""

    requires_system_checks = []
    instead: str

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv(argv[:2])

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError(self.instead)
