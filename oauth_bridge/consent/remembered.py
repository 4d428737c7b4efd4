"""Consents, and "don't ask again", which is remembered for 180 days. D7."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from oauth_bridge.models import Application
from oauth_bridge.storage import consents

if TYPE_CHECKING:
    from accounts.models import User

LIFETIME = timedelta(days=180)


def fingerprint(application: Application) -> str:
    """A digest of the details that the person agreed to: name, homepage and callback addresses."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def is_remembered(person: User, application: Application) -> bool:
    """Whether the person chose "don't ask again" for the application with its current details. One statement."""
    return consents.remembered_fingerprint(person, application) == fingerprint(application)


def is_asked(person: User, application: Application) -> bool:
    """Whether the person is asked for consent: not by a trusted application, nor after "don't ask again"."""
    return not application.is_trusted and not is_remembered(person, application)


def all_remembered(person: User, applications: Collection[Application]) -> set[Application]:
    """Those of the applications for which `is_remembered` is true. One statement."""
    fingerprints = consents.remembered_fingerprints(person)
    return {each for each in applications if fingerprints.get(each.pk) == fingerprint(each)}


def record(person: User, application: Application) -> None:
    """Store that the person has allowed the application without a choice of "don't ask again".

    An earlier choice is kept while it is valid: then only an answer to an outdated page leads here.
    """
    if not is_remembered(person, application):
        consents.store(person, application, fingerprint(application), None)


def remember(person: User, application: Application) -> None:
    """Store that the person has allowed the application, and is not asked again for 180 days."""
    consents.store(person, application, fingerprint(application), timezone.now() + LIFETIME)


def has_allowed_before(person: User, application: Application) -> bool:
    """Whether the person has allowed the application with its current details, and has not disconnected it since."""
    return consents.allowed_fingerprint(person, application) == fingerprint(application)
