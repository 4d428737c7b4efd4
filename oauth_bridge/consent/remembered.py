"""Consents, and "don't ask again", which is remembered for 180 days. D7."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from oauth_bridge.models import Application
from oauth_bridge.protocol.claims import INCLUDED, PLAIN_FACTS
from oauth_bridge.storage import consents

if TYPE_CHECKING:
    from accounts.models import User

LIFETIME = timedelta(days=180)


def fingerprint(application: Application) -> str:
    """A digest of the details that the person agreed to: name, homepage and callback addresses."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def covers(agreed: consents.Agreed | None, application: Application, facts: Sequence[str]) -> bool:
    """Whether the person agreed to all these facts, and to the application's present details."""
    if agreed is None or agreed.fingerprint != fingerprint(application):
        return False
    known = PLAIN_FACTS if agreed.facts is None else agreed.facts.split()
    return all(fact in known or INCLUDED.get(fact) in known for fact in facts)


def is_remembered(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Whether the person chose "don't ask again" for these facts. One statement."""
    return covers(consents.remembered(person, application), application, facts)


def is_asked(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Whether the person is asked for consent: always, except for a trusted application or after "don't ask again"."""
    return not application.is_trusted and not is_remembered(person, application, facts)


def all_remembered(person: User, applications: Collection[Application]) -> set[Application]:
    """The applications for which `is_remembered` is true. One statement."""
    fingerprints = consents.remembered_fingerprints(person)
    return {each for each in applications if fingerprints.get(each.pk) == fingerprint(each)}


def record(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    """Store that the person has allowed the application without a choice of "don't ask again".

    A valid earlier choice is kept: only an answer to an outdated page leads here then.
    """
    if not is_remembered(person, application, facts):
        consents.store(person, application, _agreed(application, facts), None)


def remember(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    """Store that the person has allowed the application and chose "don't ask again" for 180 days."""
    consents.store(person, application, _agreed(application, facts), timezone.now() + LIFETIME)


def has_allowed_before(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Whether the person has allowed the application these facts before and has not disconnected it since."""
    return covers(consents.allowed(person, application), application, facts)


def _agreed(application: Application, facts: Sequence[str]) -> consents.Agreed:
    is_plain = set(facts) == set(PLAIN_FACTS)
    return consents.Agreed(fingerprint(application), None if is_plain else " ".join(facts))
