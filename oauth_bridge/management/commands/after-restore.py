"""`manage.py after-restore`: end credentials and list the rows to check. Contract, operator's interface."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand

from oauth_bridge.maintenance.restoring import end_credentials_and_report

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
        described = {**end_credentials_and_report(), "to_do": TO_DO}
        self.stdout.write(json.dumps(described, ensure_ascii=False) if as_json else _plain(described))


def _plain(described: dict[str, Any]) -> str:
    ended, people, applications = described["ended"], described["people"], described["applications"]
    enabled = sum(each["enabled"] for each in applications)
    found = {
        "client_secrets": f"Client secrets that work: {sum(each['working_secrets'] for each in applications):,}",
        "applications": f"Applications: {enabled:,} enabled, {len(applications) - enabled:,} disabled",
        "people": f"People: {people['active']:,} active, {people['deactivated']:,} deactivated",
        "passwords": "Passwords: those of the backup",
        "administrators": f"Administrators: {', '.join(described['administrators']) or 'none'}",
        "remembered_consents": f"Remembered consents: {described['remembered_consents']:,}",
    }
    lines = [
        f"Ended: {ended['sessions']:,} browser sessions, {ended['codes']:,} codes, "
        f"{ended['access_tokens']:,} access tokens, {ended['signing_keys']:,} signing keys. Everybody signs in again.",
        f"The newest time in the database is {_time(described['newest_of_all'])}. The backup was made then or later, "
        "if nothing was written since the restore.",
        "All changes after the backup are lost, and the database has no record of them. Check:",
    ]
    for topic, sentence in TO_DO.items():
        lines += ["", f"{found[topic]}.", f"  {sentence}"]
        if topic == "client_secrets":
            lines += [f"  {_secrets(each)}" for each in applications]
    return "\n".join(lines)


def _secrets(application: dict[str, Any]) -> str:
    count, newest = application["working_secrets"], _time(application["newest_secret"])
    return f"{application['client_id']}  {application['name']}: {count} working, the newest made {newest}"


def _time(text: str | None) -> str:
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if text else "an unknown time"
