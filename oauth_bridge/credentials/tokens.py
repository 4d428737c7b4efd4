"""Access tokens: the SQL that stores them, and functions that read and revoke them. Specification 2.3, 3.3, 3.4.

The SQL gets the time as a parameter. So the service's clock decides what is expired, not the database's clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.contrib.auth import get_user_model
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.errors import RequestError, subject
from config.infrastructure.sql import Rows, as_uuid, fetch_one
from oauth_bridge.credentials.admission import admits
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import AccessToken, Application

if TYPE_CHECKING:
    from accounts.models import User

TOKENS = AccessToken._meta.db_table
PEOPLE = get_user_model()._meta.db_table
APPLICATIONS = Application._meta.db_table

# A token copies these columns from its code. On PostgreSQL, STORE_REDEEMED reads them from the subquery `redeemed`.
FROM_CODE = ("application_id", "user_id", "scope", "attempt", "openid", "person_version", "application_version")
_INSERT = f"INSERT INTO {TOKENS} (digest, issued_at, expires_at, {', '.join(FROM_CODE)})"
_VALUES = "%(token_digest)s, %(now)s, %(token_expires_at)s"
STORE = f"{_INSERT} VALUES ({_VALUES}, {', '.join(f'%({name})s' for name in FROM_CODE)})"
STORE_REDEEMED = f"{_INSERT} SELECT {_VALUES}, {', '.join(FROM_CODE)} FROM redeemed"  # noqa: S608

BEARERS = Rows(get_user_model(), "id", "nickname", "email", "email_verified_at", "avatar", "profile_changed_at")

# The conditions for a token that is neither expired nor revoked, each with the cause of a refusal.
CONDITIONS = {
    "person_deactivated": "u.is_active",
    "token_ended_person": "t.person_version = u.credentials_version",
    "token_ended_application": "t.application_version = a.credentials_version",
    "token_ended_group": admits("u.id"),
    "client_disabled": "a.is_enabled",
}
_VALID = f"""
      FROM {TOKENS} t JOIN {PEOPLE} u ON u.id = t.user_id JOIN {APPLICATIONS} a ON a.id = t.application_id
     WHERE t.digest = %(digest)s AND t.expires_at > %(now)s AND t.revoked_at IS NULL
       AND {" AND ".join(CONDITIONS.values())}
"""
READ = f"""
    SELECT {BEARERS.columns("u")}, t.application_id, a.client_id, a.client_type = '{Application.CLIENT_PUBLIC}',
           t.scope, t.attempt, t.openid {_VALID}
"""

OWN = Rows(AccessToken, "user_id", "scope", "issued_at", "expires_at")
READ_OWN = f"SELECT {OWN.columns('t')} {_VALID} AND t.application_id = %(application_id)s"

FIND_TOKEN = f"""
    SELECT t.id, t.application_id, t.user_id, t.expires_at, t.attempt, a.client_id,
           CASE WHEN t.revoked_at IS NOT NULL THEN coalesce(t.revoked_cause, 'token_revoked')
                {" ".join(f"WHEN ({sql}) IS NOT TRUE THEN '{cause}'" for cause, sql in CONDITIONS.items())}
           END AS ended_by
      FROM {TOKENS} t LEFT JOIN {PEOPLE} u ON u.id = t.user_id LEFT JOIN {APPLICATIONS} a ON a.id = t.application_id
     WHERE t.digest = %(digest)s
"""  # noqa: S608


class Bearer(NamedTuple):
    user: User
    application_id: int
    client_id: str
    is_public: bool  # the application has no secret, and its tokens are on people's devices
    scope: str
    attempt: UUID | None  # the attempt of the sign-in, if known
    openid: str | None  # None: the request was plain OAuth 2.0


def lifetime() -> timedelta:
    """Return the lifetime of an access token: 3,600 seconds. Specification 2.3."""
    return timedelta(seconds=oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS)


def read(token: str) -> Bearer:
    """Return the bearer of a valid token. Specification 3.3, 3.4. Raises RequestError: the token is not valid."""
    now = timezone.now()
    row = fetch_one(READ, digest=digest_of(token), now=now)
    if row is None:
        raise _refusal(token, now)
    *person, application_id, client_id, is_public, scope, attempt, openid = row
    attempt_id = attempt and as_uuid(attempt)
    return Bearer(BEARERS.instance(person), application_id, client_id, is_public, scope, attempt_id, openid)


def read_own(token: str, application_id: int) -> AccessToken | None:
    """Return the token if it is valid and of this application, otherwise None. Read only the columns of OWN."""
    row = fetch_one(READ_OWN, digest=digest_of(token), now=timezone.now(), application_id=application_id)
    return None if row is None else OWN.instance(row)


def _refusal(token: str, now: datetime) -> RequestError:
    row = next(iter(AccessToken.objects.raw(FIND_TOKEN, {"digest": digest_of(token)})), None)
    if row is None:
        return RequestError(OAuthFault.TOKEN_UNKNOWN)
    known = subject()
    known.client_id, known.person, known.attempt, known.is_proven = row.client_id or "", row.user_id, row.attempt, True
    if row.expires_at <= now:
        return RequestError(OAuthFault.TOKEN_EXPIRED)
    return RequestError(OAuthFault.TOKEN_REVOKED).about(cause=row.ended_by or "")


def revoke(digest: bytes) -> None:
    """Revoke the token with this digest because its code was used again. RFC 6749 §4.1.2."""
    _revoke("token_ended_replay", digest=digest)


def revoke_own(digest: bytes, application_id: int) -> bool:
    """Revoke the application's token with this digest. Return True if it exists, even if it was already invalid."""
    _revoke(None, digest=digest, application=application_id)
    return AccessToken.objects.filter(digest=digest, application=application_id).exists()


def revoke_all(person: User, application: Application) -> None:
    _revoke("token_ended_consent", user=person, application=application)


def _revoke(cause: str | None, **filters: Any) -> None:
    AccessToken.objects.filter(revoked_at=None, **filters).update(revoked_at=timezone.now(), revoked_cause=cause)
