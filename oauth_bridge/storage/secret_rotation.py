"""Make a client secret, with an overlap in which older secrets stay valid. Specification 5.1; D15, D17."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts import audit_trail
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.random_values import digest_of, new_credential
from oauth_bridge.secret_models import PREFIX_LENGTH
from oauth_bridge.storage import application_audit, secret_states

REVOKE_NOW = timedelta(0)
DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
# An expired secret is kept for this time. A rotation keeps at most MOST_EXPIRED expired secrets of an application.
EXPIRED_KEPT_FOR = timedelta(days=90)
MOST_EXPIRED = 10
MOST_WORKING = 10


@dataclass(frozen=True, slots=True)
class Rotation:
    """The new client secret, and the older valid secrets, latest first. The new secret itself is not stored."""

    secret: str = field(repr=False)
    older: list[ApplicationSecret]


class TooManySecrets(Exception):
    """The application already has MOST_WORKING secrets that work."""


class Maker(NamedTuple):
    """The maker of a secret: the `sub`, and the nickname. A later change of the nickname does not change the row."""

    id: UUID | None
    name: str


COMMAND_LINE = Maker(None, "command line")


@transaction.atomic
def rotate(
    application: Application, overlap: timedelta = DEFAULT_OVERLAP, *, name: str = "", maker: Maker = COMMAND_LINE
) -> Rotation:
    """Make a secret of 256 random bits. Older secrets stay valid for at most `overlap`.

    The overlap REVOKE_NOW revokes the older secrets. A rotation never moves the end of an older secret to a later time.
    `name` is a note of at most NAME_MAX_LENGTH characters. Raises TooManySecrets: MOST_WORKING secrets would stay
    valid.
    """
    number = secret_states.lock(application) + 1
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
        maker_id=maker.id,
        maker=maker.name,
    )
    Application.objects.filter(pk=application.pk).update(last_secret_number=number)
    _delete_expired(application, now)
    events.write(Event.SECRET_MADE, client_id=application.client_id)
    until = f"{ends_at:%Y-%m-%d %H:%M} UTC" if overlap else "now"
    audit_trail.write(
        "secret_made",
        application_audit.subject(application),
        {"number": (None, number), "older_secrets_end": (None, until if older else None)},
    )
    return Rotation(secret, older)


def _delete_expired(application: Application, now: datetime) -> None:
    expired = application.secrets.filter(expires_at__lte=now).order_by("-expires_at", "-pk")
    kept = expired.filter(expires_at__gt=now - EXPIRED_KEPT_FOR)[:MOST_EXPIRED]
    deleted = expired.exclude(pk__in=list(kept.values_list("pk", flat=True)))
    # A leaked secret is kept as long as its tokens could be valid, because `secret_states.revoke` makes the list of
    # leaked secrets from the rows.
    deleted.exclude(is_leaked=True, expires_at__gt=now - secret_states.LEAKED_KEPT_FOR).delete()
