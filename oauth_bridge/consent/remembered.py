"""Store and find consents, which are remembered for 180 days. D7."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from config.infrastructure.sql import fetch_one
from oauth_bridge.models import Application, Consent

if TYPE_CHECKING:
    from accounts.models import User

LIFETIME = timedelta(days=180)

FIND = f"""
    SELECT fingerprint FROM {Consent._meta.db_table}
     WHERE user_id = %s AND application_id = %s AND expires_at > %s AND person_version = %s
"""  # noqa: S608 - table name only


def fingerprint(application: Application) -> str:
    """A digest of the details that the person agreed to: name, homepage and callback addresses."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def is_remembered(person: User, application: Application) -> bool:
    """Whether the person chose "don't ask again" for the application with its current details. One statement."""
    row = fetch_one(FIND, person.pk, application.pk, timezone.now(), person.credentials_version)
    return row is not None and row[0] == fingerprint(application)


def remember(person: User, application: Application) -> None:
    """Store the person's consent to the application for 180 days, in place of an earlier one."""
    now = timezone.now()
    Consent.objects.update_or_create(
        user=person,
        application=application,
        defaults={
            "fingerprint": fingerprint(application),
            "given_at": now,
            "expires_at": now + LIFETIME,
            "person_version": person.credentials_version,
        },
    )
