"""Issue and withdraw authorization codes, and explain why a code has no row. Specification 2.2, 3."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.sql import fetch_one
from oauth_bridge.credentials.random_values import CREDENTIAL, OPENID_MARK, digest_of, new_credential
from oauth_bridge.models import Application, AuthorizationCode, WithdrawnCode

if TYPE_CHECKING:
    from accounts.models import User

CODES = AuthorizationCode._meta.db_table

# Both posts of a double click have the same attempt, and browsers show the answer to the second post. The database may
# process the second post first. The condition on `issued_at` then keeps the first post from replacing its code.
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
       AND {CODES}.issued_at <= excluded.issued_at
 RETURNING id
"""  # noqa: S608 - table names only


class AlreadyRedeemed(Exception):
    """The attempt gets no new code, usually because its code was already redeemed."""


def issue(
    person: User,
    application: Application,
    *,
    attempt: UUID,
    redirect_uri: str,
    scope: str,
    code_challenge: str = "",
    openid: str | None = None,
    received_at: datetime | None = None,
) -> str:
    """Issue a code. It replaces an unredeemed code of the same person and attempt. Specification 2.2.

    Raises AlreadyRedeemed: the attempt's code was redeemed, is of another application, or answers a later HTTP request.
    """
    code = f"{OPENID_MARK if openid else ''}{new_credential()}"
    now = received_at or timezone.now()
    row = fetch_one(
        ISSUE,
        digest=digest_of(code),
        attempt=attempt,
        application_id=application.pk,
        user_id=person.pk,
        redirect_uri=redirect_uri,
        scope=scope,
        code_challenge=code_challenge,
        openid=openid,
        issued_at=now,
        expires_at=now + timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS),
        person_version=person.credentials_version,
        application_version=application.credentials_version,
    )
    if row is None:
        raise AlreadyRedeemed
    return code


def refuse_redeemed(attempt_id: UUID, person_id: UUID | None) -> None:
    if AuthorizationCode.objects.filter(attempt=attempt_id, user=person_id, redeemed_at__isnull=False).exists():
        raise AlreadyRedeemed


def discard(attempt_id: UUID, person_id: UUID | None) -> None:
    """Delete the unredeemed code of an attempt that is refused. Raises AlreadyRedeemed: the code was redeemed."""
    withdraw(AuthorizationCode.objects.filter(attempt=attempt_id, user=person_id, redeemed_at=None))
    refuse_redeemed(attempt_id, person_id)  # after the deletion, so that nobody can redeem the code between the two


def withdraw(codes: QuerySet[AuthorizationCode]) -> None:
    """Delete the codes. The digests of unexpired codes are kept, so that `ended` can explain a refused exchange."""
    rows = list(codes.filter(expires_at__gt=timezone.now()).values_list("digest", "expires_at"))
    # A code that is issued between the two statements may be deleted too. Its digest is not kept.
    codes.delete()
    if rows:
        withdrawn = [WithdrawnCode(digest=digest, expires_at=expires_at) for digest, expires_at in rows]
        WithdrawnCode.objects.bulk_create(withdrawn, ignore_conflicts=True)


def ended(code: str) -> tuple[str, AuthorizationCode | None]:
    """Return why `code` has no row, or "" if the cause is unknown. Also return the code that replaced it, or None."""
    if not CREDENTIAL.fullmatch(code):
        return "code_misshapen", None
    digest = digest_of(code)
    if successor := next(iter(AuthorizationCode.objects.filter(former_digest=digest)), None):
        return "code_replaced", successor
    return "code_withdrawn" if WithdrawnCode.objects.filter(digest=digest).exists() else "", None
