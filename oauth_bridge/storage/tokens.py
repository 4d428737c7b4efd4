"""Access tokens: store, read, revoke. Specification 2.3, 3.3, 3.4; D14, D15, D17.

The only writer of the tokens' rows; `purging` and `restoring` delete them. The statements receive the time as a
parameter, so that only the clock of the service decides, not the database's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.auth import get_user_model
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.credentials import digest_of
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.models import AccessToken, Application

if TYPE_CHECKING:
    from accounts.models import User

TOKENS = AccessToken._meta.db_table
PEOPLE = get_user_model()._meta.db_table
APPLICATIONS = Application._meta.db_table

STORED = Rows(AccessToken)

# The columns that a token has from the code redeemed for it: the redemption returns them. On PostgreSQL `redeemed` is a
# part of the same statement.
FROM_CODE = "application_id, user_id, scope, person_version, application_version"
_INSERT = f"INSERT INTO {TOKENS} (digest, issued_at, expires_at, {FROM_CODE})"
STORE = f"{_INSERT} VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING {STORED.columns(TOKENS)}"
STORE_REDEEMED = f"{_INSERT} SELECT %s, %s, %s, {FROM_CODE} FROM redeemed RETURNING {STORED.columns(TOKENS)}"  # noqa: S608

BEARERS = Rows(get_user_model(), "id", "nickname", "email", "email_verified_at", "avatar")

READ = f"""
    SELECT {BEARERS.columns("u")}, t.application_id, a.client_type, t.scope
      FROM {TOKENS} t JOIN {PEOPLE} u ON u.id = t.user_id JOIN {APPLICATIONS} a ON a.id = t.application_id
     WHERE t.digest = %s AND t.expires_at > %s AND t.revoked_at IS NULL AND u.is_active AND a.is_enabled
       AND t.person_version = u.credentials_version AND t.application_version = a.credentials_version
"""  # noqa: S608 - names of tables and columns only


class Bearer(NamedTuple):
    """The person an access token stands for, and what the token may be used for."""

    user: User
    application_id: int
    is_public: bool  # the application has no secret, and its tokens are on people's devices
    scopes: list[str]


def lifetime() -> timedelta:
    """3,600 seconds, as OAUTH2_PROVIDER has it. Specification 2.3."""
    return timedelta(seconds=oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS)


def read(token: str) -> Bearer:
    """The person and the application of a valid token. One statement; a second one to explain a refusal.

    Specification 3.3, 3.4; D14, D17.
    Raises RequestError: the token is unknown, expired or revoked; or its person or application is deactivated, or the
    credentials of one of them have ended since the token was issued.
    """
    now = timezone.now()
    row = fetch_one(READ, digest_of(token), now)
    if row is None:
        raise RequestError(_explain(token, now))
    *person, application_id, client_type, scope = row
    return Bearer(BEARERS.instance(person), application_id, client_type == Application.CLIENT_PUBLIC, scope.split())


def _explain(token: str, now: datetime) -> Fault:
    row = AccessToken.objects.filter(digest=digest_of(token)).first()
    if row is None:
        return Fault.TOKEN_UNKNOWN
    return Fault.TOKEN_EXPIRED if row.expires_at <= now else Fault.TOKEN_REVOKED


def revoke(digest: bytes) -> None:
    """Revoke the token with this digest. RFC 6749 §4.1.2; D13."""
    AccessToken.objects.filter(digest=digest, revoked_at=None).update(revoked_at=timezone.now())


def revoke_all(person: User, application: Application) -> None:
    """Revoke every token that the application holds for the person."""
    AccessToken.objects.filter(user=person, application=application, revoked_at=None).update(revoked_at=timezone.now())
