"""After a backup was restored: end what can be ended, find what an operator must look at. `manage.py after-restore`.

What was changed after the backup is what the database lost. So nothing here decides which secret or which account is
right; it counts what works now, and says until when the backup reaches.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, models, transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from accounts.models import Session, User
from oauth_bridge.models import AccessToken, Application, ApplicationSecret, AuthorizationCode, Consent

ENDED: dict[str, type[models.Model]] = {
    "sessions": Session,
    "codes": AuthorizationCode,
    "access_tokens": AccessToken,
}
# The times that say until when the backup reaches.
WRITTEN: dict[str, tuple[type[models.Model], str]] = {
    "session": (Session, "created_at"),
    "sign_in": (User, "last_login"),
    "account": (User, "created_at"),
    "code": (AuthorizationCode, "issued_at"),
    "access_token": (AccessToken, "issued_at"),
    "consent": (Consent, "given_at"),
    "application": (Application, "updated"),
    "client_secret": (ApplicationSecret, "created_at"),
    "client_secret_used": (ApplicationSecret, "last_used_at"),
}


class Restored(NamedTuple):
    """What was ended, by kind; the newest time of each kind of row; and what else works again."""

    ended: dict[str, int]
    newest: dict[str, datetime | None]
    applications: list[dict[str, Any]]
    people: dict[str, int]
    administrators: list[str]
    remembered_consents: int

    @property
    def newest_of_all(self) -> datetime | None:
        """The backup was made then or later, if nothing was written since the restore; None for an empty database."""
        return max((time for time in self.newest.values() if time), default=None)


def end_and_look() -> Restored:
    """End all sessions, codes and access tokens; what there was before, and what is left to look at."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL statement_timeout = 0")  # tables of millions of rows are read whole
        restored = _look(timezone.now())
    for model in ENDED.values():
        _empty(model._meta.db_table)
    return restored


def _look(now: datetime) -> Restored:
    works = Q(secrets__is_revoked=False) & (Q(secrets__expires_at=None) | Q(secrets__expires_at__gt=now))
    applications = Application.objects.annotate(
        working_secrets=Count("secrets", filter=works), newest_secret=Max("secrets__created_at", filter=works)
    ).order_by("name", "pk")
    people = User.objects.aggregate(active=Count("pk", filter=Q(is_active=True)), total=Count("pk"))
    administrators = User.objects.filter(Q(is_staff=True) | Q(is_superuser=True), is_active=True).order_by("email")
    consents = Consent.objects.filter(expires_at__gt=now, person_version=F("user__credentials_version"))
    return Restored(
        ended={kind: model._default_manager.count() for kind, model in ENDED.items()},
        newest={
            kind: model._default_manager.aggregate(at=Max(column))["at"] for kind, (model, column) in WRITTEN.items()
        },
        applications=list(
            applications.values("client_id", "name", "is_enabled", "is_trusted", "working_secrets", "newest_secret")
        ),
        people={"active": people["active"], "deactivated": people["total"] - people["active"]},
        administrators=list(administrators.values_list("email", flat=True)),
        remembered_consents=consents.count(),
    )


def _empty(table: str) -> None:
    """A transaction of its own, so that it can't deadlock with a live statement. No row refers to one of the table."""
    statement = "TRUNCATE {}" if connection.vendor == "postgresql" else "DELETE FROM {}"
    with connection.cursor() as cursor:
        cursor.execute(statement.format(connection.ops.quote_name(table)))
