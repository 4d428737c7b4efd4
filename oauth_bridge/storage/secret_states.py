"""Number client secrets, find their states, and end a single secret. Decisions C10 to C12.

Every change of an application's secrets calls `lock` first, so changes wait for each other. Exchanges do not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts import audit_trail
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.storage import application_audit

# How long a leaked secret is kept after its end: longer than the lifetime of a token plus the duration of an exchange.
LEAKED_KEPT_FOR = timedelta(days=1)

# An older secret may be removed if a newer secret was used at least this time after the last use of the older secret.
# The time is long, because an application's processes change to a new secret one after the other, and `last_used_at` is
# accurate only to the minute.
QUIET_FOR = timedelta(hours=1)

# One run sends e-mails about at most this number of ending secrets.
MOST_TOLD = 1_000


class State(StrEnum):
    WORKS = "works"  # valid without an end
    ENDING = "ending"  # valid until `expires_at`
    EXPIRED = "expired"  # ended after the overlap of a rotation
    REVOKED = "revoked"  # ended at once
    LEAKED = "leaked"  # revoked together with all of its tokens


class UseWarning(StrEnum):
    NONE = ""
    STILL_USED = "still_used"  # used after its replacement


@dataclass(frozen=True, slots=True)
class SecretState:
    """The facts about a client secret. `id` is called `secret_row` in the log. `name` is a note.

    `maker` is a nickname, or an English text if `maker_id` is None. `prefix` is the beginning of the secret.
    `last_used_at` is accurate to the minute. `may_be_removed`: the secret is valid, but a newer secret is used instead.
    """

    id: int
    number: int
    name: str
    maker: str
    maker_id: UUID | None
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    state: State
    may_be_removed: bool
    warning: UseWarning

    @property
    def works(self) -> bool:
        return self.state in (State.WORKS, State.ENDING)


class UnknownSecret(Exception):
    """The application has no secret with this number."""


def states(application: Application) -> list[SecretState]:
    """The secrets of the application, the latest first. One statement."""
    rows = list(application.secrets.all())
    return [_state(row, rows) for row in rows]


def lock(application: Application) -> int:
    """Lock the application's secrets until the transaction ends. Returns the highest number of a secret so far."""
    # With `no_key`, exchanges do not wait.
    return Application.objects.select_for_update(no_key=True).get(pk=application.pk).last_secret_number


@transaction.atomic
def revoke(application: Application, number: int, *, is_leaked: bool = False) -> SecretState:
    """End one secret at once. With `is_leaked`, all tokens of the secret are invalid too.

    A secret that has already ended can also be reported as leaked. The application's row lists the leaked secrets, and
    `storage.tokens.READ` compares each token with the list. So no token is updated, and the token of an exchange that
    has already begun is also invalid. Raises UnknownSecret: there is no secret with this number.
    """
    lock(application)
    secret, now = application.secrets.filter(number=number).first(), timezone.now()
    if secret is None:
        raise UnknownSecret
    if not secret.is_revoked or (is_leaked and not secret.is_leaked):
        secret.is_revoked, secret.is_leaked = True, is_leaked or secret.is_leaked
        secret.expires_at = min(secret.expires_at or now, now)
        secret.save(update_fields=["is_revoked", "is_leaked", "expires_at"])
        events.write(
            Event.SECRET_ENDED, client_id=application.client_id, secret_row=secret.pk, is_leaked=secret.is_leaked
        )
        audit_trail.write(
            "secret_leaked" if is_leaked else "secret_ended",
            application_audit.subject(application),
            {"number": (number, None)},
        )
    if is_leaked:
        leaked = application.secrets.filter(is_leaked=True).order_by("pk").values_list("pk", flat=True)
        listed = f",{','.join(map(str, leaked))},"
        Application.objects.filter(pk=application.pk).update(leaked_secrets=listed)
    rows = list(application.secrets.all())
    return next(_state(row, rows) for row in rows if row.pk == secret.pk)


def ending(now: datetime, days: int) -> list[int]:
    """The primary keys of secrets that end within `days` days and have had no e-mail yet; at most MOST_TOLD.

    An e-mail that was sent for a larger number of days does not count. Switched-off applications are left out.
    """
    found = ApplicationSecret.objects.filter(_is_untold(now, days), application__is_enabled=True)
    return list(found.order_by("expires_at", "pk").values_list("pk", flat=True)[:MOST_TOLD])


def claim_ending(key: int, now: datetime, days: int) -> ApplicationSecret | None:
    """Claim a secret that `ending` has returned. Returns None if the secret was claimed before.

    The caller sends the e-mails in the same transaction.
    """
    if not ApplicationSecret.objects.filter(_is_untold(now, days), pk=key).update(told_days=days):
        return None
    return ApplicationSecret.objects.select_related("application").get(pk=key)


def _is_untold(now: datetime, days: int) -> Q:
    ends = Q(is_revoked=False, expires_at__gt=now, expires_at__lte=now + timedelta(days=days))
    return ends & (Q(told_days=None) | Q(told_days__gt=days))


def _state(row: ApplicationSecret, all_rows: list[ApplicationSecret]) -> SecretState:
    newer = [each for each in all_rows if each.pk > row.pk and each.works]
    return SecretState(
        id=row.pk,
        number=row.number,
        name=row.name,
        maker=row.maker,
        maker_id=row.maker_id,
        prefix=row.prefix,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        expires_at=row.expires_at,
        state=_state_of(row),
        may_be_removed=row.works and any(_is_used_instead(each, row) for each in newer),
        warning=UseWarning.STILL_USED if row.works and _is_used_since(row, newer) else UseWarning.NONE,
    )


def _state_of(row: ApplicationSecret) -> State:
    if row.is_leaked:
        return State.LEAKED
    if row.is_revoked:
        return State.REVOKED
    if not row.works:
        return State.EXPIRED
    return State.ENDING if row.expires_at else State.WORKS


def _is_used_instead(newer: ApplicationSecret, older: ApplicationSecret) -> bool:
    if newer.last_used_at is None:
        return False
    return older.last_used_at is None or newer.last_used_at >= older.last_used_at + QUIET_FOR


def _is_used_since(row: ApplicationSecret, newer: list[ApplicationSecret]) -> bool:
    """Return whether the secret was used after its replacement, and no newer secret is used instead."""
    if row.last_used_at is None or not newer or any(_is_used_instead(each, row) for each in newer):
        return False
    return row.last_used_at > min(each.created_at for each in newer)
