"""Replace the toolkit's command `manage.py createapplication`, which would store an application without a secret."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Use manage.py application create NAME --redirect-uri URI: it prints the client_id and the secret."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv(argv[:2])

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError(self.help)
