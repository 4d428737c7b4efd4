"""Client secrets: authenticate an application, rotate its secrets. Specification 5.1, 5.3; D9, D12, D15, D17.

The only writer of their rows; `purging` deletes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from config.infrastructure.sql import adapted, fetch_all, is_postgresql
from oauth_bridge.credentials import digest_of, new_credential
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.models import Application, ApplicationSecret

REVOKE_NOW = timedelta(0)
DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
# An expired secret is kept for this long; a rotation keeps at most so many of its application.
EXPIRED_KEPT_FOR = timedelta(days=90)
MOST_EXPIRED = 10
MOST_WORKING = 10

USE_NOTED_EVERY = timedelta(minutes=1)
NO_DIGEST = bytes(32)

APPLICATIONS = Application._meta.db_table
SECRETS = ApplicationSecret._meta.db_table

# Always read both tables, so that an unknown client takes as long as a wrong secret.
FIND = f"""
    SELECT a.id, a.client_id, a.client_type, a.is_enabled,
           s.id, s.digest, s.is_revoked OR s.expires_at <= %s, s.last_used_at > %s
      FROM (SELECT 1) AS always
      LEFT JOIN {APPLICATIONS} a ON a.client_id = %s LEFT JOIN {SECRETS} s ON s.application_id = coalesce(a.id, 0)
"""  # noqa: S608 - table names only

# The condition stands in the statement too, so that one of many simultaneous calls writes. The others do not wait for
# it, nor for a rotation that holds the row: the next use is noted as well.
NOTE_USE = f"""
    UPDATE {SECRETS} SET last_used_at = %s
     WHERE id = (SELECT id FROM {SECRETS} WHERE id = %s AND (last_used_at IS NULL OR last_used_at <= %s) {{lock}})
"""  # noqa: S608
WITHOUT_WAITING = "FOR NO KEY UPDATE SKIP LOCKED"


class Client(NamedTuple):
    """An application at the token operation."""

    pk: int
    client_id: str
    client_type: str
    is_enabled: bool

    @property
    def is_public(self) -> bool:
        return self.client_type == Application.CLIENT_PUBLIC


class SecretExpired(RequestError):
    """The secret was right once. Only a caller who held it sends it, so the sentence tells a stranger nothing."""

    def __init__(self, secret_id: int, now: datetime) -> None:
        super().__init__(Fault.CLIENT_SECRET_EXPIRED)
        expires_at = ApplicationSecret.objects.filter(pk=secret_id).values_list("expires_at", flat=True).first()
        self.secret_id = secret_id
        self.expired_seconds = round((now - (expires_at or now)).total_seconds(), 1)


def authenticate(form: dict[str, str]) -> Client:
    """The client that `client_id` and `client_secret` prove. One statement; a second one a minute notes the use.

    The digest is compared in constant time with every secret of the application. A public client names itself and
    proves itself by its `code_verifier` (D9).
    Raises RequestError: the client does not exist, is switched off, proves nothing, or the secret is wrong. The
    sentence depends on the request alone: nobody learns whether such a client exists, or its type.
    Raises SecretExpired: the secret has expired.
    """
    client_id, secret = form["client_id"], form.get("client_secret", "")
    now = timezone.now()
    rows = fetch_all(FIND, now, now - USE_NOTED_EVERY, client_id)
    client = Client(*rows[0][:4])
    digest = digest_of(secret)
    matching = [row[4:] for row in rows if constant_time_compare(digest, row[5] or NO_DIGEST)]
    is_proved = not secret and "code_verifier" in form if client.is_public else bool(matching)
    if not client.is_enabled or not is_proved:
        raise RequestError(Fault.CLIENT_NOT_AUTHENTICATED if secret else Fault.CLIENT_SECRET_MISSING)
    for secret_id, _digest, is_expired, is_noted in matching:
        if is_expired:
            raise SecretExpired(secret_id, now)
        if not is_noted:
            _note_use(secret_id, now)
    return client


def _note_use(secret_id: int, now: datetime) -> None:
    lock = WITHOUT_WAITING if is_postgresql() else ""
    with connection.cursor() as cursor:
        cursor.execute(NOTE_USE.format(lock=lock), adapted(now, secret_id, now - USE_NOTED_EVERY))


@dataclass(frozen=True, slots=True)
class Rotation:
    """The new client secret, which is not stored, and the secrets that worked until now, latest first."""

    secret: str = field(repr=False)
    older: list[ApplicationSecret]


class TooManySecrets(Exception):
    """MOST_WORKING secrets of the application work already."""


@transaction.atomic
def rotate(application: Application, overlap: timedelta = DEFAULT_OVERLAP) -> Rotation:
    """A new secret of 256 random bits. The older ones work for `overlap` at most; with REVOKE_NOW they are revoked.

    None works longer than it would have without the rotation.
    Raises TooManySecrets: MOST_WORKING of them still work and would go on working.
    """
    # One rotation at a time, so that none misses the secret of another. Exchanges need not wait (no_key).
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
    secret = new_credential()
    ApplicationSecret.objects.create(application=application, digest=digest_of(secret), created_at=now)
    _delete_expired(application, now)
    return Rotation(secret, older)


def _delete_expired(application: Application, now: datetime) -> None:
    expired = application.secrets.filter(expires_at__lte=now).order_by("-expires_at", "-pk")
    kept = expired.filter(expires_at__gt=now - EXPIRED_KEPT_FOR)[:MOST_EXPIRED]
    expired.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()
