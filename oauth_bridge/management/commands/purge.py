"""`manage.py purge`: delete what is past use, in batches, safe beside live traffic. Contract, operator's interface."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from accounts.models import Session
from oauth_bridge import applications, codes
from oauth_bridge.models import Consent

LARGEST_BATCH = 10_000


class Command(BaseCommand):
    help = "Delete codes, access tokens, expired secrets, consents and browser sessions that are past use, in batches."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", type=int, default=1000, help="rows a statement deletes at most (default 1000)")

    def handle(self, *args: Any, batch: int, **options: Any) -> None:
        if not 1 <= batch <= LARGEST_BATCH:
            raise CommandError(f"--batch must be at least 1 and at most {LARGEST_BATCH}.")
        total = 0
        while gone := codes.purge(batch):
            total += gone
        while gone := applications.purge_secrets(batch):
            total += gone
        for model, field in ((Consent, "expires_at"), (Session, "expire_date")):
            past = model._default_manager.filter(**{f"{field}__lte": timezone.now()}).order_by(field)
            while keys := list(past.values_list("pk", flat=True)[:batch]):
                total += model._default_manager.filter(pk__in=keys).delete()[0]
        self.stdout.write(f"{total} rows deleted.")
