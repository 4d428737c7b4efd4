"""Who calls the token operation: the application, proved by its secret. Specification 5.1, 5.3; D9, D12, D15, D17."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import NamedTuple, NoReturn

from django.db import connection
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from config.infrastructure.sql import adapted, fetch_all, is_postgresql
from oauth_bridge import throttling
from oauth_bridge.codes import digest_of
from oauth_bridge.faults import Fault, Refused
from oauth_bridge.models import Application, ApplicationSecret

logger = logging.getLogger("oauth_bridge")

USE_NOTED_EVERY = timedelta(minutes=1)
NO_DIGEST = bytes(32)

APPLICATIONS = Application._meta.db_table
SECRETS = ApplicationSecret._meta.db_table

# Where there is no such application, it is looked for and read all the same, and so is its secret: that takes as long.
FIND = f"""
    SELECT a.id, a.client_id, a.client_type, a.is_enabled,
           s.id, s.digest, s.is_revoked OR s.expires_at <= %s, s.last_used_at > %s
      FROM (SELECT 1) AS always
      LEFT JOIN {APPLICATIONS} a ON a.client_id = %s LEFT JOIN {SECRETS} s ON s.application_id = coalesce(a.id, 0)
"""  # noqa: S608 - table names only

NOTE_USE = f"""
    UPDATE {SECRETS} SET last_used_at = %s
     WHERE id = (SELECT id FROM {SECRETS} WHERE id = %s AND (last_used_at IS NULL OR last_used_at <= %s) {{lock}})
"""  # noqa: S608
WITHOUT_WAITING = "FOR NO KEY UPDATE SKIP LOCKED"


class Client(NamedTuple):
    """An application at the token operation: what of it decides there."""

    pk: int
    client_id: str
    client_type: str
    is_enabled: bool

    @property
    def is_public(self) -> bool:
        return self.client_type == Application.CLIENT_PUBLIC


def authenticate(form: dict[str, str], address: str) -> Client:
    """The client that `client_id` and `client_secret` prove. One statement.

    And a second one when the use of the secret was last noted a minute ago or more.
    By digest and constant-time compare with every secret that is remembered; an unknown client costs what a wrong
    secret costs. A public client names itself and proves itself by its `code_verifier` (D9).
    Raises Refused: it does not exist, is switched off, proves nothing, or the secret is wrong or expired; or too many
    failed before.
    """
    client_id, secret = form["client_id"], form.get("client_secret", "")
    now = timezone.now()
    rows = fetch_all(FIND, now, now - USE_NOTED_EVERY, client_id)
    client = Client(*rows[0][:4])
    digest = digest_of(secret)
    matching = [row[4:] for row in rows if constant_time_compare(digest, row[5] or NO_DIGEST)]
    if not client.is_enabled:
        _refuse(form, address)
    is_proved = not secret and "code_verifier" in form if client.is_public else bool(matching)
    if not is_proved:
        _refuse(form, address)
    for secret_id, _digest, is_expired, is_noted in matching:
        if is_expired:
            _refuse_expired(client_id, address, secret_id, now)
        if not is_noted:
            _note_use(secret_id, now)
    return client


def _note_use(secret_id: int, now: datetime) -> None:
    """The condition is repeated in the statement, so that of any number of calls at once one writes.

    The others do not wait for it, nor for a rotation that has the row and may be stuck: the next use is noted as well.
    """
    lock = WITHOUT_WAITING if is_postgresql() else ""
    with connection.cursor() as cursor:
        cursor.execute(NOTE_USE.format(lock=lock), adapted(now, secret_id, now - USE_NOTED_EVERY))


def _refuse_expired(client_id: str, address: str, secret_id: int, now: datetime) -> NoReturn:
    """Whoever sends it once held it, so a sentence of its own tells no stranger anything."""
    throttling.token_failure(address, client_id)
    expires_at = ApplicationSecret.objects.filter(pk=secret_id).values_list("expires_at", flat=True).first()
    logger.warning(
        "expired client secret used",
        extra={
            "client_id": client_id,
            "secret_row": secret_id,
            "expired_seconds": round((now - (expires_at or now)).total_seconds(), 1),
            "address": address,
        },
    )
    raise Refused(Fault.CLIENT_SECRET_EXPIRED)


def _refuse(form: dict[str, str], address: str) -> NoReturn:
    """What is said depends on the request alone: nobody learns whether there is such a client, or of what type."""
    throttling.token_failure(address, form["client_id"])
    raise Refused(Fault.CLIENT_NOT_AUTHENTICATED if form.get("client_secret") else Fault.CLIENT_SECRET_MISSING)
