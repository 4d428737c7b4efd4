"""Codes and tokens: issue, redeem, recognise a replay, revoke.

The only writer of their rows; `purging` and `restoring` delete them. Specification 2.2, 2.3, 3; D8, D13, D14, D15.
Times are aware datetimes; lifetimes are in seconds. The hot statements are written by hand because building them costs
more than running them; `now` is always a parameter, so that one clock, the application's, decides.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from config.infrastructure.sql import Rows, fetch_one, is_postgresql
from oauth_bridge.faults import Fault, Refused
from oauth_bridge.models import AccessToken, Application, AuthorizationCode

if TYPE_CHECKING:
    from accounts.models import User

CODE_LIFETIME_SECONDS = 600
TOKEN_LIFETIME_SECONDS = 3600

Person = get_user_model()
CODES = AuthorizationCode._meta.db_table
TOKENS = AccessToken._meta.db_table
APPLICATIONS = Application._meta.db_table
PEOPLE = Person._meta.db_table

ISSUE = f"""
    INSERT INTO {CODES} (digest, attempt, application_id, user_id, redirect_uri, scope, code_challenge,
                         issued_at, expires_at, person_version, application_version)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (user_id, attempt) DO UPDATE
       SET digest = excluded.digest, issued_at = excluded.issued_at, expires_at = excluded.expires_at,
           person_version = excluded.person_version, application_version = excluded.application_version
     WHERE {CODES}.redeemed_at IS NULL AND {CODES}.application_id = excluded.application_id
 RETURNING id
"""  # noqa: S608 - table names only

FIND = f"""
    SELECT c.id, c.digest, c.application_id, c.user_id, c.redirect_uri, c.scope, c.code_challenge, c.expires_at,
           c.redeemed_at, c.token_digest, u.is_active AS person_is_active,
           c.person_version <> u.credentials_version OR c.application_version <> a.credentials_version AS is_ended
      FROM {CODES} c JOIN {PEOPLE} u ON u.id = c.user_id LEFT JOIN {APPLICATIONS} a ON a.id = c.application_id
     WHERE c.digest = %s
"""  # noqa: S608

SPEND = f"""
    UPDATE {CODES} SET redeemed_at = %s, token_digest = %s
     WHERE digest = %s AND redeemed_at IS NULL AND expires_at > %s AND application_id = %s AND code_challenge = %s
       AND redirect_uri = coalesce(%s, redirect_uri)
       AND EXISTS (SELECT 1 FROM {PEOPLE} u
                    WHERE u.id = user_id AND u.is_active AND u.credentials_version = person_version)
       AND EXISTS (SELECT 1 FROM {APPLICATIONS} a
                    WHERE a.id = application_id AND a.credentials_version = application_version)
 RETURNING application_id, user_id, scope, person_version, application_version
"""  # noqa: S608

STORE = f"""
    INSERT INTO {TOKENS} (digest, application_id, user_id, scope, person_version, application_version,
                          issued_at, expires_at)
"""

SPEND_AND_STORE = f"""
    WITH spent AS ({SPEND})
    {STORE} SELECT %s, application_id, user_id, scope, person_version, application_version, %s, %s FROM spent
    RETURNING id
"""  # noqa: S608

BEARERS = Rows(Person, "id", "nickname", "email", "email_verified_at", "avatar")

READ = f"""
    SELECT {BEARERS.columns("u")}, t.application_id, a.client_type, t.scope
      FROM {TOKENS} t JOIN {PEOPLE} u ON u.id = t.user_id JOIN {APPLICATIONS} a ON a.id = t.application_id
     WHERE t.digest = %s AND t.expires_at > %s AND t.revoked_at IS NULL AND u.is_active AND a.is_enabled
       AND t.person_version = u.credentials_version AND t.application_version = a.credentials_version
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a person has allowed: the code that is issued stands for exactly this."""

    id: UUID
    application: Application
    redirect_uri: str
    scope: str
    code_challenge: str


class Bearer(NamedTuple):
    """Whom an access token stands for, and what it may be used for."""

    person: User
    application_id: int
    is_public: bool  # the application has no secret, so that people hold its tokens themselves
    scopes: list[str]


class AlreadyRedeemed(Exception):
    """The attempt's code has been redeemed, so no other one is issued for it (D8)."""


def new_credential() -> str:
    """256 random bits in 43 URL-safe characters."""
    return secrets.token_urlsafe(32)


def digest_of(credential: str) -> bytes:
    """What is stored of a credential: enough to recognise it, useless to anybody who reads it (D15)."""
    return hashlib.sha256(credential.encode()).digest()


def issue(attempt: Attempt, person: User) -> str:
    """A fresh code for the attempt; one that was issued for it before and not redeemed is void from now on.

    D8, D14. Lifetime: 600 seconds.
    Raises AlreadyRedeemed: the attempt has led to a token already.
    """
    code = new_credential()
    now = timezone.now()
    row = fetch_one(
        ISSUE,
        digest_of(code),
        attempt.id,
        attempt.application.pk,
        person.pk,
        attempt.redirect_uri,
        attempt.scope,
        attempt.code_challenge,
        now,
        now + timedelta(seconds=CODE_LIFETIME_SECONDS),
        person.credentials_version,
        attempt.application.credentials_version,
    )
    if row is None:
        raise AlreadyRedeemed
    return code


def void(attempt_id: UUID, person: User) -> None:
    """Forget the code of the person's attempt when it has not been redeemed: the person refused after all (D8)."""
    AuthorizationCode.objects.filter(attempt=attempt_id, user=person, redeemed_at=None).delete()


def find(code: str) -> AuthorizationCode | None:
    """The code's row with `person_is_active` and `is_ended`, whatever state it is in."""
    return next(iter(AuthorizationCode.objects.raw(FIND, [digest_of(code)])), None)


def redeem(presented: dict[str, str], application_id: int, token: str) -> bool:
    """Spend the code of the form and store the token in one step; False when any of it does not hold.

    `presented` holds `code`, and `code_verifier` and `redirect_uri` where they were sent. Why it is False is for
    `find` to say: what is wrong must not cost those for whom everything is right.

    Specification 3.1, 3.2; D10, D13, D14; RFC 7636 §4.6. Lifetime of the token: 3,600 seconds.
    """
    now = timezone.now()
    spent = digest_of(presented["code"])
    challenge = challenge_of(presented.get("code_verifier", ""))
    digest = digest_of(token)
    expires_at = now + timedelta(seconds=TOKEN_LIFETIME_SECONDS)
    spend = (now, digest, spent, now, application_id, challenge, presented.get("redirect_uri"))
    if is_postgresql():
        return fetch_one(SPEND_AND_STORE, *spend, digest, now, expires_at) is not None
    with transaction.atomic():
        row = fetch_one(SPEND, *spend)
        if row is None:
            return False
        fetch_one(f"{STORE} VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id", digest, *row, now, expires_at)
    return True


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 §4.2); none for none."""
    if not verifier:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def revoke_issued_from(row: AuthorizationCode) -> None:
    """End the token that was issued from a code. RFC 6749 §4.1.2; D13."""
    AccessToken.objects.filter(digest=row.token_digest, revoked_at=None).update(revoked_at=timezone.now())


def revoke_all(person: User, application: Application) -> None:
    """End everything the application holds for the person: its tokens and codes that are still to be redeemed."""
    AuthorizationCode.objects.filter(user=person, application=application, redeemed_at=None).delete()
    AccessToken.objects.filter(user=person, application=application, revoked_at=None).update(revoked_at=timezone.now())


def read(token: str) -> Bearer:
    """Whom the token stands for. One statement.

    Specification 3.3; D14, D17.
    Raises Refused: the token is unknown, expired or revoked, or its person or application is switched off or was
    since; or the person has a new password.
    """
    now = timezone.now()
    digest = digest_of(token)
    found = fetch_one(READ, digest, now)
    if found is not None:
        *person, application_id, client_type, scope = found
        is_public = client_type == Application.CLIENT_PUBLIC
        return Bearer(BEARERS.instance(person), application_id, is_public, scope.split())
    row = AccessToken.objects.filter(digest=digest).first()
    if row is None:
        raise Refused(Fault.TOKEN_UNKNOWN)
    raise Refused(Fault.TOKEN_EXPIRED if row.expires_at <= now else Fault.TOKEN_REVOKED)
