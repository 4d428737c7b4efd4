"""Store, check and end the consents of people, and list a person's applications."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction
from django.utils import timezone

from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.sql import fetch_one
from oauth_bridge.credentials import code_history, codes, tokens
from oauth_bridge.credentials.code_history import SignIns
from oauth_bridge.models import Application, AuthorizationCode, Consent
from oauth_bridge.openid.claims import PLAIN_FACTS

if TYPE_CHECKING:
    from accounts.models import User

REMEMBERED_FOR = timedelta(days=180)

# Written as SQL for speed, because sign-ins without a consent page run it.
FIND_REMEMBERED = f"""
    SELECT fingerprint, agreed FROM {Consent._meta.db_table}
     WHERE user_id = %(person_id)s AND application_id = %(application_id)s AND person_version = %(version)s
       AND expires_at > %(now)s
"""  # noqa: S608 - the name of a table only


class Connection(NamedTuple):
    """An application that has a consent of the person, or that the person signed in to during the last 30 days."""

    application: Application
    consent: Consent | None
    sign_ins: SignIns | None
    is_remembered: bool

    @property
    def last_at(self) -> datetime:
        times = [self.consent.given_at if self.consent else None, self.sign_ins.last_at if self.sign_ins else None]
        return max(filter(None, times))


def fingerprint(application: Application) -> str:
    """Return a digest of name, homepage and callback addresses. If the digest changes, old consents do not apply."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def covers(agreed: tuple[str, str | None] | None, application: Application, facts: Sequence[str]) -> bool:
    """Return whether the consent `agreed` (fingerprint, facts) includes `facts` and the application is unchanged."""
    if agreed is None or agreed[0] != fingerprint(application):
        return False
    known = PLAIN_FACTS if agreed[1] is None else agreed[1].split()
    return all(fact in known for fact in facts)


def is_remembered(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    """Return whether a valid "don't ask again" of the person covers these facts."""
    values = {"person_id": person.pk, "version": person.credentials_version, "now": timezone.now()}
    row = fetch_one(FIND_REMEMBERED, **values, application_id=application.pk)
    return covers(row, application, facts)


def is_asked(person: User, application: Application, facts: Sequence[str], redirect_uri: str) -> bool:
    """Return whether consent is required. Even if it is not, the request may demand the consent page (`prompt`)."""
    # Another program on the person's machine may listen at a port that is not registered (RFC 8252 §8.6).
    if application.has_own_port(redirect_uri):
        return True
    return not application.is_trusted and not is_remembered(person, application, facts)


def has_allowed_before(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> bool:
    row = Consent.objects.filter(user=person, application=application).values_list("fingerprint", "agreed").first()
    return covers(row, application, facts)


def record(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    """Store a consent without "don't ask again". Store nothing if a valid "don't ask again" covers these facts."""
    # A remembered person may answer too: an outdated page, or a page that `prompt` requires.
    if not is_remembered(person, application, facts):
        _store(person, application, facts, None)


def remember(person: User, application: Application, facts: Sequence[str] = PLAIN_FACTS) -> None:
    _store(person, application, facts, timezone.now() + REMEMBERED_FOR)


def _store(person: User, application: Application, facts: Sequence[str], remembered_until: datetime | None) -> None:
    consent = Consent(
        user=person,
        application=application,
        fingerprint=fingerprint(application),
        agreed=None if set(facts) == set(PLAIN_FACTS) else " ".join(facts),
        given_at=timezone.now(),
        expires_at=remembered_until,
        person_version=person.credentials_version,
    )
    Consent.objects.bulk_create(
        [consent],
        update_conflicts=True,
        unique_fields=["user", "application"],
        update_fields=["fingerprint", "agreed", "expires_at", "person_version"],
    )


def forget(person: User, application: Application) -> None:
    """End "don't ask again". The application stays allowed, and its codes and tokens stay valid."""
    Consent.objects.filter(user=person, application=application).update(expires_at=None)


@transaction.atomic
def disconnect(person: User, application: Application) -> None:
    """Delete the consent, and end the application's codes and tokens for the person.

    A request that read the consent before the deletion can still issue a code afterwards.
    """
    # Codes end before tokens, so that the token of a simultaneous redemption is revoked too.
    codes.withdraw(AuthorizationCode.objects.filter(user=person, application=application))
    tokens.revoke_all(person, application)
    Consent.objects.filter(user=person, application=application).delete()
    events.write(Event.DISCONNECTED, client_id=application.client_id, person=person.pk)


def connections(person: User) -> list[Connection]:
    """Return the person's connections, ordered by the application's name."""
    sign_ins, now = code_history.sign_ins(person), timezone.now()
    given = {consent.application_id: consent for consent in Consent.objects.filter(user=person)}
    found = []
    for application in Application.objects.filter(pk__in={*given, *sign_ins}):
        consent = given.get(application.pk)
        is_remembered = (
            consent is not None
            and consent.expires_at is not None
            and consent.expires_at > now
            and consent.person_version == person.credentials_version
            and consent.fingerprint == fingerprint(application)
        )
        found.append(Connection(application, consent, sign_ins.get(application.pk), is_remembered))
    return found
