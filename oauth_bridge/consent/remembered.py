"""Store consents, and remember the choice "don't ask again" for 180 days. D7."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from oauth_bridge.consent import consents
from oauth_bridge.models import Application
from oauth_bridge.openid.claims import INCLUDED, PLAIN_FACTS

if TYPE_CHECKING:
    from accounts.models import User

LIFETIME = timedelta(days=180)


def fingerprint(application: Application) -> str:
    """Return a digest of the details to which a person agrees: name, homepage and callback addresses."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def covers(agreed: consents.Agreed | None, application: Application, facts: Sequence[str]) -> bool:
    """Return whether the person agreed to all these facts and to the present details of the application."""
    if agreed is None or agreed.fingerprint != fingerprint(application):
        return False
    known = PLAIN_FACTS if agreed.facts is None else agreed.facts.split()
    return all(fact in known or INCLUDED.get(fact) in known for fact in facts)


def is_remembered(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Return whether the person chose "don't ask again" for these facts. Runs one statement."""
    return covers(consents.remembered(person, application), application, facts)


def is_asked(person: User, application: Application, facts: Sequence[str], redirect_uri: str) -> bool:
    """Return whether to ask for consent: always, except for a trusted application or after "don't ask again".

    The exceptions do not apply to an address with a port that only the request names (RFC 8252 §8.6).
    """
    if application.has_own_port(redirect_uri):
        return True
    return not application.is_trusted and not is_remembered(person, application, facts)


def all_remembered(person: User, applications: Collection[Application]) -> set[Application]:
    """Return the applications for which the person chose "don't ask again". Runs one statement.

    An application whose details have changed since then is left out.
    """
    fingerprints = consents.remembered_fingerprints(person)
    return {each for each in applications if fingerprints.get(each.pk) == fingerprint(each)}


def record(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    """Store that the person has allowed the application and has not chosen "don't ask again".

    A valid earlier choice is kept. There can be one if the consent page was outdated, or if the application
    requested the page with `prompt`.
    """
    if not is_remembered(person, application, facts):
        consents.store(person, application, _agreed(application, facts), None)


def remember(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    """Store that the person has allowed the application and chose "don't ask again" for 180 days."""
    consents.store(person, application, _agreed(application, facts), timezone.now() + LIFETIME)


def has_allowed_before(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Return whether the person allowed the application to read these facts and has not disconnected it since."""
    return covers(consents.allowed(person, application), application, facts)


def _agreed(application: Application, facts: Sequence[str]) -> consents.Agreed:
    is_plain = set(facts) == set(PLAIN_FACTS)
    return consents.Agreed(fingerprint(application), None if is_plain else " ".join(facts))
