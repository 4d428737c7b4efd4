"""How many rows an attack left in the database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

# What one address may make the service store while it attacks: docs/operations.md, "What one sender can use up". The
# limits count by the minute, so the bound is for an attack that lasts less, and two minutes may be touched.
MOST_ROWS = 400
LASTING = "sessions of nobody for more than an hour"


@dataclass(frozen=True)
class Stored:
    """Rows by table, without those that the normal clients add."""

    rows: Counter[str]

    @classmethod
    def now(cls) -> Stored:
        from django.apps import apps
        from django.db import connection
        from django.utils import timezone

        session, code, token = (
            apps.get_model(name)
            for name in ("accounts.Session", "oauth_bridge.AuthorizationCode", "oauth_bridge.AccessToken")
        )
        connection.close()  # it was forked, and the server may have ended it meanwhile
        counted = Counter(
            {model._meta.db_table: model.objects.count() for model in apps.get_models() if model not in (code, token)}
        )
        lasting = timezone.now() + timedelta(hours=1, seconds=1)
        counted[LASTING] = session.objects.filter(user=None, expire_date__gt=lasting).count()
        connection.close()
        return cls(counted)

    def __sub__(self, before: Stored) -> Stored:
        return Stored(self.rows - before.rows)

    @property
    def is_bounded(self) -> bool:
        return not self.rows[LASTING] and self.rows.total() <= MOST_ROWS

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {table}" for table, count in sorted(self.rows.items())) or "none"
