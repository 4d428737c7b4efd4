"""Make, list and end client secrets. Changes for one application run one by one. Redeeming a code does not wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from accounts import audit_trail
from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.applications import registry
from oauth_bridge.credentials.random_values import digest_of, new_credential
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.models.secrets import PREFIX_LENGTH

REVOKE_NOW = timedelta(0)
DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
EXPIRED_KEPT_FOR = timedelta(days=90)
MOST_EXPIRED = 10  # of an application; each exchange compares all its secrets
MOST_WORKING = 10
# An older secret counts as no longer used if a newer one was used this much later. Until then, some processes of the
# application may still use the older one.
QUIET_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Rotation:
    secret: str = field(repr=False)  # only its digest is stored
    older: list[ApplicationSecret]  # those that were valid before, the latest first


class TooManySecrets(Exception):
    """The application already has MOST_WORKING valid secrets."""


class UnknownSecret(Exception):
    """The application has no secret with this number."""


@transaction.atomic
def rotate(
    application: Application, overlap: timedelta = DEFAULT_OVERLAP, *, name: str = "", maker: User | None = None
) -> Rotation:
    """Make a secret. Older secrets end within `overlap`, or at once if it is REVOKE_NOW. Raises TooManySecrets."""
    number = lock(application) + 1
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
    secret = new_credential()
    ApplicationSecret.objects.create(
        application=application,
        digest=digest_of(secret),
        created_at=now,
        number=number,
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        maker_id=maker.pk if maker else None,
        maker=maker.display_name if maker else "command line",
    )
    Application.objects.filter(pk=application.pk).update(last_secret_number=number)
    ended = application.secrets.filter(expires_at__lte=now).order_by("-expires_at", "-pk")
    kept = list(ended.values_list("pk", flat=True)[:MOST_EXPIRED])
    ended.exclude(pk__in=kept).delete()
    events.write(Event.SECRET_MADE, client_id=application.client_id)
    until = f"{ends_at:{audit_trail.TIME_FORMAT}}" if overlap else "now"
    audit_trail.write(
        "secret_made",
        registry.subject(application),
        {"number": (None, number), "older_secrets_end": (None, until if older else None)},
    )
    return Rotation(secret, older)


def states(application: Application) -> list[ApplicationSecret]:
    """Return the application's secrets, latest first. `is_still_used` marks old secrets that are still in use."""
    return states_of([application.pk]).get(application.pk, [])


def states_of(applications: Collection[int]) -> dict[int, list[ApplicationSecret]]:
    """Return the `states` of each application, by the application's primary key."""
    found: dict[int, list[ApplicationSecret]] = {}
    for row in ApplicationSecret.objects.filter(application__in=applications):
        newer = found.setdefault(row.application_id, [])
        row.is_still_used = row.works and _is_still_used(row, [each for each in newer if each.works])
        newer.append(row)
    return found


def _is_still_used(row: ApplicationSecret, newer: list[ApplicationSecret]) -> bool:
    if row.last_used_at is None or not newer:
        return False
    used_instead = [each for each in newer if each.last_used_at and each.last_used_at >= row.last_used_at + QUIET_FOR]
    return not used_instead and row.last_used_at > min(each.created_at for each in newer)


def lock(application: Application) -> int:
    """Lock the application's row until the transaction ends. Return the number of the last secret that was made."""
    # `no_key`: inserts of rows that refer to the application do not wait.
    return Application.objects.select_for_update(no_key=True).get(pk=application.pk).last_secret_number


@transaction.atomic
def revoke(application: Application, number: int, *, is_leaked: bool = False) -> ApplicationSecret:
    """End a secret at once. If `is_leaked`, also end all codes and tokens of the application. Raises UnknownSecret."""
    lock(application)
    secret, now = application.secrets.filter(number=number).first(), timezone.now()
    if secret is None:
        raise UnknownSecret
    if secret.is_revoked and (secret.is_leaked or not is_leaked):
        return secret
    secret.is_revoked, secret.is_leaked = True, is_leaked
    secret.expires_at = min(secret.expires_at or now, now)
    secret.save(update_fields=["is_revoked", "is_leaked", "expires_at"])
    if is_leaked:
        Application.objects.filter(pk=application.pk).update(credentials_version=F("credentials_version") + 1)
        application.refresh_from_db(fields=["credentials_version"])
    events.write(Event.SECRET_ENDED, client_id=application.client_id, secret_row=secret.pk, is_leaked=is_leaked)
    audit_trail.write(
        "secret_leaked" if is_leaked else "secret_ended",
        registry.subject(application),
        {"number": (number, None)},
    )
    return secret
