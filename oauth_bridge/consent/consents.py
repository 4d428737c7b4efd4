"""Store, find and end consents. List and disconnect the applications that a person has allowed. D7.

Only this module writes consents. The statement for a sign-in without a consent page is hand-written.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction
from django.utils import timezone

from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.sql import fetch_all, fetch_one
from oauth_bridge.credentials import codes, issued_codes, tokens
from oauth_bridge.credentials.issued_codes import SignIns
from oauth_bridge.models import Application, Consent

if TYPE_CHECKING:
    from accounts.models import User

CONSENTS = Consent._meta.db_table

REMEMBERED = "user_id = %(person_id)s AND person_version = %(version)s AND expires_at > %(now)s"
FIND_REMEMBERED = (
    f"SELECT fingerprint, agreed FROM {CONSENTS} WHERE {REMEMBERED} AND application_id = %(application_id)s"  # noqa: S608 - names only
)
FIND_ALL = f"SELECT application_id, fingerprint FROM {CONSENTS} WHERE {REMEMBERED}"  # noqa: S608


class Connection(NamedTuple):
    """An application that the person has allowed, or that has signed the person in (`issued_codes.sign_ins`).

    `consent` is None if the person was never asked, as for a trusted application.
    """

    application: Application
    consent: Consent | None
    sign_ins: SignIns | None


class Agreed(NamedTuple):
    """The last agreement of a person: the fingerprint of the application, and the facts (None: all facts of D16)."""

    fingerprint: str
    facts: str | None


def remembered(person: User, application: Application) -> Agreed | None:
    """The agreement for which the person chose "don't ask again". One statement."""
    row = fetch_one(FIND_REMEMBERED, **_remembered(person), application_id=application.pk)
    return None if row is None else Agreed(*row)


def remembered_fingerprints(person: User) -> dict[int, str]:
    """The fingerprints of all agreements that `remembered` would find, by the primary key of the application."""
    return dict(fetch_all(FIND_ALL, **_remembered(person)))


def _remembered(person: User) -> dict[str, object]:
    """The parameters of REMEMBERED."""
    return {"person_id": person.pk, "version": person.credentials_version, "now": timezone.now()}


def store(person: User, application: Application, agreed: Agreed, remembered_until: datetime | None) -> None:
    """Store the person's agreement. The time of the first consent stays unchanged.

    One statement.
    """
    consent = Consent(
        user=person,
        application=application,
        fingerprint=agreed.fingerprint,
        agreed=agreed.facts,
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


def allowed(person: User, application: Application) -> Agreed | None:
    """The person's last agreement; None if the application is not allowed."""
    row = Consent.objects.filter(user=person, application=application).values_list("fingerprint", "agreed").first()
    return Agreed(*row) if row else None


def forget(person: User, application: Application) -> None:
    """End "don't ask again". The application stays allowed, and its codes and tokens stay valid."""
    Consent.objects.filter(user=person, application=application).update(expires_at=None)


@transaction.atomic
def disconnect(person: User, application: Application) -> None:
    """Delete the consent, and end the application's codes and tokens for the person.

    The codes are deleted first. If a redemption has already begun, the next statement revokes the token of the
    redemption. If an authorization without a consent page has already read the consent, a code is still issued, because
    the authorization counts as earlier than the disconnection.
    """
    codes.delete_all(person, application)
    tokens.revoke_all(person, application)
    Consent.objects.filter(user=person, application=application).delete()
    events.write(Event.DISCONNECTED, client_id=application.client_id, person=person.pk)


def connections(person: User) -> list[Connection]:
    """The person's applications, in no particular order. Three statements."""
    sign_ins = issued_codes.sign_ins(person)
    consents = {consent.application_id: consent for consent in Consent.objects.filter(user=person)}
    applications = Application.objects.filter(pk__in={*consents, *sign_ins})
    return [Connection(each, consents.get(each.pk), sign_ins.get(each.pk)) for each in applications]
