"""Registering an application and its secrets: the only writer of those rows beside the admin form. D15.

(When a secret was last used is noted by `clients`.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from accounts.sessions import SessionStore
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge import codes
from oauth_bridge.models import Application, ApplicationSecret, Consent

AT_ONCE = timedelta(0)
DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
# An expired secret is remembered for this long; at a rotation, of one application, so many.
EXPIRED_KEPT_FOR = timedelta(days=90)
MOST_EXPIRED = 10
MOST_WORKING = 10

APPLICATIONS = Rows(Application, without=("created", "updated"))

BY_CLIENT_ID = f"SELECT {APPLICATIONS.columns('a')} FROM {Application._meta.db_table} a WHERE a.client_id = %s"  # noqa: S608


def find(client_id: str, session: SessionStore | None = None) -> Application | None:
    """The application a request names, whatever state it is in, with what the session's person has agreed to."""
    if not client_id.isprintable():  # PostgreSQL takes no NUL
        return None
    row = fetch_one(BY_CLIENT_ID, client_id)
    if row is None:
        return None
    application = APPLICATIONS.instance(row)
    application.agreed_fingerprint = None
    if session and session.person and not application.is_trusted:
        person = session.person
        consents = Consent.objects.filter(
            user=person,
            application=application,
            expires_at__gt=timezone.now(),
            person_version=person.credentials_version,
        )
        application.agreed_fingerprint = consents.values_list("fingerprint", flat=True).first()
    return application


@transaction.atomic
def create(
    *, name: str, redirect_uris: list[str], homepage: str = "", is_trusted: bool = False
) -> tuple[Application, str]:
    """A saved application and its client secret, which is nowhere kept.

    Raises ValidationError: the name, the homepage or a callback address can't be registered.
    """
    application = Application(
        name=name, redirect_uris="\n".join(redirect_uris), homepage=homepage, is_trusted=is_trusted
    )
    application.full_clean()
    application.save()
    return application, rotate_secret(application).secret


@dataclass(frozen=True, slots=True)
class Rotation:
    """The new client secret, which is nowhere kept, and the older ones that worked until now, latest first."""

    secret: str = field(repr=False)
    older: list[ApplicationSecret]


class TooManySecrets(Exception):
    """MOST_WORKING secrets of the application work already: another beside them would help nobody."""


@transaction.atomic
def rotate_secret(application: Application, overlap: timedelta = DEFAULT_OVERLAP) -> Rotation:
    """A new secret of 256 random bits. The ones before it work for `overlap` at most; AT_ONCE, they are revoked.

    Never longer than they would have without it.
    Raises TooManySecrets: MOST_WORKING of them still work, and are to go on working.
    """
    # One rotation after the other, so that none overlooks the secret of another. Exchanges need not wait (no_key).
    Application.objects.select_for_update(no_key=True).get(pk=application.pk)
    now = timezone.now()
    ends_at = now + overlap
    older = list(application.secrets.filter(Q(expires_at=None) | Q(expires_at__gt=now), is_revoked=False))
    if overlap and len(older) >= MOST_WORKING:
        raise TooManySecrets
    if not overlap:
        application.secrets.update(is_revoked=True)
    for row in older:
        row.expires_at = min(row.expires_at or ends_at, ends_at)
        row.save(update_fields=["expires_at"])
    secret = codes.new_credential()
    ApplicationSecret.objects.create(application=application, digest=codes.digest_of(secret), created_at=now)
    _forget_expired(application, now)
    return Rotation(secret, older)


def _forget_expired(application: Application, now: datetime) -> None:
    expired = application.secrets.filter(expires_at__lte=now).order_by("-expires_at", "-pk")
    kept = expired.filter(expires_at__gt=now - EXPIRED_KEPT_FOR)[:MOST_EXPIRED]
    expired.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


def set_enabled(application: Application, is_enabled: bool) -> None:
    """Switch the application off or on. Either way its codes and tokens from before end; nothing ends without a change.

    D17. One statement, however many there are.
    """
    Application.objects.filter(pk=application.pk).exclude(is_enabled=is_enabled).update(
        is_enabled=is_enabled, credentials_version=F("credentials_version") + 1, updated=timezone.now()
    )
    application.refresh_from_db(fields=["is_enabled", "credentials_version", "updated"])
