"""Authorization codes: issue and withdraw. Specification 2.2, 3; D8, D14, D15.

`code_redemption` redeems codes. `issued_codes` also writes rows of codes; `purging` and `after-restore` delete rows.
Frequent statements are hand-written, because the ORM takes longer to build a statement than the database takes to run
it. The statements receive the time as a parameter: only the service's clock counts, not the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.sql import fetch_one
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.random_values import OPENID_MARK, digest_of, new_credential
from oauth_bridge.storage import ended_codes

if TYPE_CHECKING:
    from accounts.models import User

CODES = AuthorizationCode._meta.db_table

# Two posts of one page within this time are a double click. Browsers show the answer to the second post. The second
# post may arrive before the first (D8).
DOUBLE_CLICK_WITHIN = timedelta(seconds=1)

ISSUE = f"""
    INSERT INTO {CODES} (digest, attempt, application_id, user_id, redirect_uri, scope, code_challenge, openid,
                         issued_at, expires_at, person_version, application_version)
    VALUES (%(digest)s, %(attempt)s, %(application_id)s, %(user_id)s, %(redirect_uri)s, %(scope)s, %(code_challenge)s,
            %(openid)s, %(issued_at)s, %(expires_at)s, %(person_version)s, %(application_version)s)
    ON CONFLICT (user_id, attempt) DO UPDATE
       SET former_digest = {CODES}.digest, digest = excluded.digest, openid = excluded.openid,
           issued_at = excluded.issued_at, expires_at = excluded.expires_at,
           person_version = excluded.person_version, application_version = excluded.application_version
     WHERE {CODES}.redeemed_at IS NULL AND {CODES}.application_id = excluded.application_id
       AND ({CODES}.issued_at <= excluded.issued_at OR {CODES}.issued_at > %(double_click_before)s)
 RETURNING id
"""  # noqa: S608 - table names only


@dataclass(frozen=True, slots=True)
class Attempt:
    """One authorization that a person has allowed. A second post of the same consent page has the same `id` (D8)."""

    id: UUID
    application: Application
    redirect_uri: str
    scope: str
    code_challenge: str
    openid: str | None = None  # `protocol.openid_request.Granted`, as JSON


class AlreadyRedeemed(Exception):
    """A code of the attempt was redeemed or issued to a later request, so no new code is issued (D8)."""


def issue(attempt: Attempt, person: User, received_at: datetime | None = None) -> str:
    """Issue a code for the attempt. The code replaces an earlier unredeemed code of the attempt.

    Specification 2.2; D8, D14. The code expires 600 seconds after `received_at`, the time at which the service received
    the request (by default now). Raises AlreadyRedeemed: a code of the attempt was redeemed, or the second request of a
    double click already has the code.
    """
    code = f"{OPENID_MARK if attempt.openid else ''}{new_credential()}"
    now = received_at or timezone.now()
    row = fetch_one(
        ISSUE,
        digest=digest_of(code),
        attempt=attempt.id,
        application_id=attempt.application.pk,
        user_id=person.pk,
        redirect_uri=attempt.redirect_uri,
        scope=attempt.scope,
        code_challenge=attempt.code_challenge,
        openid=attempt.openid,
        issued_at=now,
        expires_at=now + timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS),
        person_version=person.credentials_version,
        application_version=attempt.application.credentials_version,
        double_click_before=now + DOUBLE_CLICK_WITHIN,
    )
    if row is None:
        raise AlreadyRedeemed
    return code


def refuse_redeemed(attempt_id: UUID, person_id: UUID | None) -> None:
    """Raises AlreadyRedeemed: a code of the person's attempt was redeemed, so the attempt is finished (D8)."""
    if AuthorizationCode.objects.filter(attempt=attempt_id, user=person_id, redeemed_at__isnull=False).exists():
        raise AlreadyRedeemed


def discard(attempt_id: UUID, person_id: UUID | None) -> None:
    """Delete the unredeemed code of an attempt, because the person allowed the request and then refused it (D8).

    Raises AlreadyRedeemed: as `refuse_redeemed`. The check follows the deletion, because no code can be redeemed after
    the deletion.
    """
    ended_codes.withdraw(AuthorizationCode.objects.filter(attempt=attempt_id, user=person_id, redeemed_at=None))
    refuse_redeemed(attempt_id, person_id)


def delete_all(person: User, application: Application) -> None:
    """Delete every code of the person for the application, redeemed or not."""
    ended_codes.withdraw(AuthorizationCode.objects.filter(user=person, application=application))
