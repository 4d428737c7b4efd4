"""`manage.py after-restore`: after a backup is restored, end credentials, and list what the operator must check."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand
from django.db import models, transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from accounts.models import OutgoingMail, Session, User
from oauth_bridge.models import AccessToken, Application, ApplicationSecret, AuthorizationCode, Consent
from oauth_bridge.openid import signing_keys

ENDED: dict[str, models.QuerySet[Any]] = {
    "sessions": Session.objects.all(),
    "codes": AuthorizationCode.objects.all(),
    "access_tokens": AccessToken.objects.all(),
}
# The backup was made at the newest of these times or later, unless the service has written since the restore.
WRITTEN_AT: dict[str, tuple[type[models.Model], str]] = {
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
TO_DO = {
    "client_secrets": (
        "A client secret that was revoked or replaced after the backup works again, and a newer one is unknown. "
        "Make a new one for each application: manage.py application rotate-secret CLIENT_ID --now."
    ),
    "applications": (
        "An application that was disabled or deleted after the backup is enabled again, with its old callback "
        "addresses; one that was registered later is missing. Use manage.py application disable, delete or create."
    ),
    "people": (
        "A person who was deactivated or deleted after the backup is active again; an account that was created later "
        "is missing. Use manage.py account deactivate or create."
    ),
    "passwords": (
        "A password that was changed after the backup is the old one again. Use manage.py account set-password if "
        "somebody else may know the old one; everybody can choose a new one by mail."
    ),
    "administrators": (
        "A person who lost the administrator's rights after the backup has them again. Remove them in the "
        "administration, under People."
    ),
    "remembered_consents": (
        "A consent that a person ended after the backup is remembered again. The person can end it at "
        "/accounts/applications; a new password ends all consents of the person."
    ),
}


class Command(BaseCommand):
    help = (
        "After restoring a backup: end all browser sessions, codes, access tokens and signing keys, and list the other "
        "restored rows to check. Asks no questions and can be run again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        with transaction.atomic():
            report = found(timezone.now())
            ended = {kind: rows.delete()[0] for kind, rows in ENDED.items()}
            OutgoingMail.objects.filter(holds_credential=True).delete()
            report["ended"] = {**ended, "signing_keys": signing_keys.revoke_all()}
        text = json.dumps(report, ensure_ascii=False, default=datetime.isoformat) if as_json else _plain(report)
        self.stdout.write(text)


def found(now: datetime) -> dict[str, Any]:
    """Return facts about the restored database. Call this before the rows in ENDED are deleted: `newest` needs them."""
    works = Q(secrets__is_revoked=False) & (Q(secrets__expires_at=None) | Q(secrets__expires_at__gt=now))
    applications = Application.objects.order_by("name", "pk").values(
        "client_id",
        "name",
        enabled=F("is_enabled"),
        trusted=F("is_trusted"),
        working_secrets=Count("secrets", filter=works),
        newest_secret=Max("secrets__created_at", filter=works),
    )
    administrators = User.objects.filter(Q(is_staff=True) | Q(is_superuser=True), is_active=True).order_by("email")
    consents = Consent.objects.filter(expires_at__gt=now, person_version=F("user__credentials_version"))
    newest = {
        kind: model._default_manager.aggregate(at=Max(column))["at"] for kind, (model, column) in WRITTEN_AT.items()
    }
    return {
        "newest_of_all": max(filter(None, newest.values()), default=None),
        "newest": newest,
        "applications": list(applications),
        "people": User.objects.aggregate(
            active=Count("pk", filter=Q(is_active=True)), deactivated=Count("pk", filter=Q(is_active=False))
        ),
        "administrators": list(administrators.values_list("email", flat=True)),
        "remembered_consents": consents.count(),
        "to_do": TO_DO,
    }


def _plain(report: dict[str, Any]) -> str:
    applications, people = report["applications"], report["people"]
    shown = {
        "client_secrets": "".join(
            f"\n  {each['client_id']}  {each['name']}: {each['working_secrets']} working, "
            f"the newest made {_time(each['newest_secret'])}"
            for each in applications
        ),
        "applications": f"{sum(each['enabled'] for each in applications):,} enabled of {len(applications):,}",
        "people": f"{people['active']:,} active, {people['deactivated']:,} deactivated",
        "passwords": "those of the backup",
        "administrators": ", ".join(report["administrators"]) or "none",
        "remembered_consents": f"{report['remembered_consents']:,}",
    }
    ended = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in report["ended"].items())
    lines = [
        f"Ended: {ended}. Everybody signs in again.",
        f"The newest time in the database is {_time(report['newest_of_all'])}. The backup was made then or later, "
        "if nothing was written since the restore.",
        "All changes after the backup are lost, and the database has no record of them. Check:",
    ]
    lines += [f"\n{each.replace('_', ' ').capitalize()}: {shown[each]}\n  {TO_DO[each]}" for each in TO_DO]
    return "\n".join(lines)


def _time(time: datetime | None) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if time else "an unknown time"
