"""Commands of the toolkit that would crash here, or make rows that nothing of ours can use."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError


class ReplacedCommand(BaseCommand):
    """Does nothing. Raises CommandError: always, saying which command to use instead, whatever the arguments."""

    requires_system_checks = []
    instead: str

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv(argv[:2])

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError(self.instead)
