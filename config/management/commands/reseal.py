"""`manage.py reseal`: seal the database's secrets again under the first SECRET_KEY. Contract, operator's interface."""

from __future__ import annotations

import base64
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from accounts.factors import adapter
from accounts.mail import outbox
from config.infrastructure import sealing
from oauth_bridge.openid import signing_keys

# The number of rows in one read. Each row is written separately, so a request waits for at most one row.
BATCH = 500


@dataclass(frozen=True)
class SealedColumn:
    """A column of sealed values. If `member` is set, this member of a JSON object has the value, in base64."""

    kind: str
    model: str
    column: str
    purpose: str
    member: str = ""
    is_bound: bool = False  # True if the value is bound to the row's id, a UUID

    def rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = apps.get_model(self.model)._default_manager.order_by("pk")
        if self.member:
            return rows.filter(**{f"{self.column}__has_key": self.member})
        return rows.exclude(**{self.column: b""}).exclude(**{self.column: None})

    def sealed(self, stored: Any) -> bytes:
        try:
            return base64.b64decode(stored[self.member]) if self.member else bytes(stored)
        except ValueError:
            return b""  # bytes that no key can unseal

    def stored(self, sealed: bytes, old: Any) -> Any:
        """Return the new value of the column, which replaces `old`."""
        return {**old, self.member: base64.b64encode(sealed).decode()} if self.member else sealed


SEALED_COLUMNS = (
    SealedColumn("Authenticator apps", "mfa.Authenticator", "data", adapter.PURPOSE, member="secret"),
    SealedColumn("Recovery codes", "mfa.Authenticator", "data", adapter.PURPOSE, member="seed"),
    SealedColumn("Signing keys", "oauth_bridge.SigningKey", "private", signing_keys.PURPOSE, is_bound=True),
    SealedColumn("Waiting e-mails", "accounts.OutgoingMail", "sealed", outbox.PURPOSE, is_bound=True),
)


class Command(BaseCommand):
    help = (
        "Seal what is stored under a former SECRET_KEY anew, under the present one, while the service runs. Can be "
        "stopped and run again at any time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="count only, and change nothing")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        unreadable = 0
        for column in SEALED_COLUMNS:
            counts: Counter[str] = Counter()
            for row_id, stored in _read(column):
                outcome = _reseal(column, row_id, stored, dry_run)
                counts[outcome] += 1
                if outcome == "unreadable":
                    self.stderr.write(f"{column.kind}: no key opens row {row_id} of {column.model}.")
            unreadable += counts["unreadable"]
            done = "to be sealed anew" if dry_run else "sealed anew"
            self.stdout.write(
                f"{column.kind}: {counts['old']:,} {done}, {counts['current']:,} under SECRET_KEY already, "
                f"{counts['unreadable']:,} that could not be opened."
            )
        if unreadable:
            raise CommandError(
                "What could not be opened was left as it is. Name the key that it was sealed under in "
                "SECRET_KEY_FALLBACKS and run this again, or see docs/operations.md, A new SECRET_KEY."
            )


def _read(column: SealedColumn) -> Iterator[tuple[Any, Any]]:
    """Yield the id and stored value of each row. It may skip new rows, which the first key has sealed."""
    rows = column.rows().values_list("pk", column.column)
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])


def _reseal(column: SealedColumn, row_id: Any, stored: Any, dry_run: bool) -> str:
    """Seal an old row again. Return the former state of the row: "old", "current", "unreadable" or "deleted".

    If a request has changed the column meanwhile, the row is not written, but read again.
    """
    bound_to = row_id.bytes if column.is_bound else b""
    rows = column.rows().filter(pk=row_id)
    while stored is not None:
        sealed = column.sealed(stored)
        if sealing.is_under_first_key(column.purpose, sealed, bound_to):
            return "current"
        content = sealing.unseal(column.purpose, sealed, bound_to)
        if content is None:
            return "unreadable"
        new = column.stored(sealing.seal(column.purpose, content, bound_to), stored)
        if dry_run or rows.filter(**{column.column: stored}).update(**{column.column: new}):
            return "old"
        stored = rows.values_list(column.column, flat=True).first()
    return "deleted"
