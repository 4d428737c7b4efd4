"""`manage.py reseal`: encrypt stored secrets under SECRET_KEY instead of a former key. See docs/operations.md."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any, NamedTuple

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from accounts.factors import authenticators
from accounts.mail import outbox
from config.infrastructure import sealing
from oauth_bridge.openid import signing_keys


class SealedColumn(NamedTuple):
    """A column of encrypted values. If `member` is given, each value is in this member of a JSON object, in base64."""

    kind: str
    model: str
    column: str
    purpose: str
    member: str = ""
    is_bound: bool = False  # True if the value is bound to the row's id, a UUID


SEALED_COLUMNS = (
    SealedColumn("Authenticator apps", "mfa.Authenticator", "data", authenticators.PURPOSE, member="secret"),
    SealedColumn("Recovery codes", "mfa.Authenticator", "data", authenticators.PURPOSE, member="seed"),
    SealedColumn("Signing keys", "oauth_bridge.SigningKey", "private", signing_keys.PURPOSE, is_bound=True),
    SealedColumn("Waiting e-mails", "accounts.OutgoingMail", "sealed", outbox.PURPOSE, is_bound=True),
)


class Command(BaseCommand):
    help = (
        "Seal what is stored under a former SECRET_KEY anew, under the present one, while the service runs. Can be "
        "stopped and run again at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = 0
        for column in SEALED_COLUMNS:
            counts: Counter[str] = Counter()
            rows = apps.get_model(column.model)._default_manager.order_by("pk")
            for row_id in list(rows.values_list("pk", flat=True)):
                outcome = _reseal(column, row_id)
                counts[outcome] += 1
                if outcome == "unreadable":
                    self.stderr.write(f"{column.kind}: no key opens row {row_id} of {column.model}.")
            unreadable += counts["unreadable"]
            self.stdout.write(
                f"{column.kind}: {counts['old']:,} sealed anew, {counts['current']:,} under SECRET_KEY already, "
                f"{counts['unreadable']:,} that could not be opened."
            )
        if unreadable:
            raise CommandError(
                "What could not be opened was left as it is. Name the key that it was sealed under in "
                "SECRET_KEY_FALLBACKS and run this again, or see docs/operations.md, A new SECRET_KEY."
            )


@transaction.atomic
def _reseal(column: SealedColumn, row_id: Any) -> str:
    """If a former key sealed the value, reseal it and return "old". Else return "current", "unreadable" or "empty"."""
    row: Any = apps.get_model(column.model)._default_manager.select_for_update().filter(pk=row_id).first()
    stored: Any = getattr(row, column.column, None)  # None: the row was deleted meanwhile
    value = stored.get(column.member) if stored and column.member else stored
    if not value:
        return "empty"
    try:
        sealed = base64.b64decode(value) if column.member else bytes(value)
    except ValueError:
        return "unreadable"
    bound_to = row_id.bytes if column.is_bound else b""
    if sealing.is_under_first_key(column.purpose, sealed, bound_to):
        return "current"
    content = sealing.unseal(column.purpose, sealed, bound_to)
    if content is None:
        return "unreadable"
    sealed = sealing.seal(column.purpose, content, bound_to)
    new = {**stored, column.member: base64.b64encode(sealed).decode()} if column.member else sealed
    setattr(row, column.column, new)
    row.save(update_fields=[column.column])
    return "old"
