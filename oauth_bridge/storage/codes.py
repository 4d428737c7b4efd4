"""Authorization codes: issue, redeem, explain why a code was not redeemed. Specification 2.2, 3; D8, D13, D14, D15.

The only writer of the codes' rows; `purging` and `restoring` delete them. The hot statements are hand-written, because
the ORM takes longer to build them than the database to run them. They receive the time as a parameter, so that only the
clock of the service decides, not the database's.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.sql import fetch_one, is_postgresql
from oauth_bridge import redirect_uris
from oauth_bridge.credentials import digest_of, new_credential
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from oauth_bridge.storage import tokens
from oauth_bridge.storage.client_secrets import Client
from oauth_bridge.storage.tokens import APPLICATIONS, PEOPLE, STORED

if TYPE_CHECKING:
    from accounts.models import User

logger = logging.getLogger("oauth_bridge")

CODES = AuthorizationCode._meta.db_table

# A second redemption within this time is the same exchange sent twice; a later one is a replay (D13).
SENT_TWICE_WITHIN = timedelta(seconds=3)

# Two posts of one page within this time are a double click. Browsers follow the second, which may be the faster (D8).
DOUBLE_CLICK_WITHIN = timedelta(seconds=1)

# A redeemed code is the record of a sign-in. People see how often an application signed them in within this time.
REDEEMED_KEPT_FOR = timedelta(days=30)

ISSUE = f"""
    INSERT INTO {CODES} (digest, attempt, application_id, user_id, redirect_uri, scope, code_challenge,
                         issued_at, expires_at, person_version, application_version)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (user_id, attempt) DO UPDATE
       SET digest = excluded.digest, issued_at = excluded.issued_at, expires_at = excluded.expires_at,
           person_version = excluded.person_version, application_version = excluded.application_version
     WHERE {CODES}.redeemed_at IS NULL AND {CODES}.application_id = excluded.application_id
       AND ({CODES}.issued_at <= excluded.issued_at OR {CODES}.issued_at > %s)
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


class SignIns(NamedTuple):
    """A person's sign-ins to one application: redeemed codes."""

    last_at: datetime
    number: int


class AlreadyRedeemed(Exception):
    """A code of the attempt was redeemed, or given to a later request, so no new one is issued for it (D8)."""


class CodeReplayed(RequestError):
    """A spent code was sent again, and its token is revoked. `person_id` is the person who should be told. D13."""

    def __init__(self, row: AuthorizationCode, age_seconds: float) -> None:
        super().__init__(Fault.CODE_SPENT, age=f"{age_seconds:.1f}")
        self.person_id: UUID = row.user_id


def issue(attempt: Attempt, person: User, received_at: datetime | None = None) -> str:
    """A new code for the attempt. It replaces an earlier, unredeemed code of the same attempt.

    Specification 2.2; D8, D14. Lifetime: 600 seconds from `received_at`, when the service received the request: now,
    unless given.
    Raises AlreadyRedeemed: a code of the attempt was redeemed, or the second request of a double click was faster.
    """
    code = new_credential()
    now = received_at or timezone.now()
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
        now + timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS),
        person.credentials_version,
        attempt.application.credentials_version,
        now + DOUBLE_CLICK_WITHIN,
    )
    if row is None:
        raise AlreadyRedeemed
    return code


def discard(attempt_id: UUID, person: User) -> None:
    """Delete the unredeemed code of an attempt, because the person has refused after allowing (D8)."""
    AuthorizationCode.objects.filter(attempt=attempt_id, user=person, redeemed_at=None).delete()


def delete_all(person: User, application: Application) -> None:
    """Delete every code of the person for the application, redeemed or not."""
    AuthorizationCode.objects.filter(user=person, application=application).delete()


def sign_ins(person: User) -> dict[int, SignIns]:
    """The person's sign-ins within REDEEMED_KEPT_FOR, by the primary key of the application. One statement."""
    redeemed = AuthorizationCode.objects.filter(user=person, redeemed_at__gt=timezone.now() - REDEEMED_KEPT_FOR)
    rows = redeemed.values_list("application").annotate(last_at=Max("redeemed_at"), number=Count("pk"))
    return {application_id: SignIns(last_at, number) for application_id, last_at, number in rows}


# Redemption ----------------------------------------------------------------------------------------------------------

# `explain` checks the conditions in the same order, but a code_verifier without a code_challenge (D9) later.

REDEEM = f"""
    UPDATE {CODES} SET redeemed_at = %s, token_digest = %s
     WHERE digest = %s
       AND application_id = %s
       AND code_challenge = %s
       AND redeemed_at IS NULL
       AND expires_at > %s
       AND EXISTS (SELECT 1 FROM {PEOPLE} u
                    WHERE u.id = user_id AND u.is_active AND u.credentials_version = person_version)
       AND EXISTS (SELECT 1 FROM {APPLICATIONS} a
                    WHERE a.id = application_id AND a.credentials_version = application_version)
       AND redirect_uri = coalesce(%s, redirect_uri)
 RETURNING {tokens.FROM_CODE}
"""  # noqa: S608

REDEEM_AND_STORE = f"WITH redeemed AS ({REDEEM}) {tokens.STORE_REDEEMED}"

FIND = f"""
    SELECT c.id, c.digest, c.application_id, c.user_id, c.redirect_uri, c.code_challenge, c.expires_at, c.redeemed_at,
           c.token_digest, u.is_active AS person_is_active,
           c.person_version <> u.credentials_version
           OR a.id IS NULL OR c.application_version <> a.credentials_version AS is_ended
      FROM {CODES} c JOIN {PEOPLE} u ON u.id = c.user_id LEFT JOIN {APPLICATIONS} a ON a.id = c.application_id
     WHERE c.digest = %s
"""  # noqa: S608


def redeem(form: dict[str, str], application_id: int, token: str) -> AccessToken | None:
    """The row of the access token; None when the code can't be redeemed, for which `explain` finds the reason.

    Redeems the code and stores the token in one transaction. `form` contains `code`, and `code_verifier` and
    `redirect_uri` if they were sent.

    Specification 3.1, 3.2; D10, D13, D14, D17; RFC 7636 §4.6. Lifetime of the token: 3,600 seconds.
    """
    now = timezone.now()
    code_digest, token_digest = digest_of(form["code"]), digest_of(token)
    challenge = challenge_of(form.get("code_verifier", ""))
    redemption = (now, token_digest, code_digest, application_id, challenge, now, form.get("redirect_uri"))
    expires_at = now + tokens.lifetime()
    if is_postgresql():
        row = fetch_one(REDEEM_AND_STORE, *redemption, token_digest, now, expires_at)
    else:
        with transaction.atomic():
            redeemed = fetch_one(REDEEM, *redemption)
            row = fetch_one(tokens.STORE, token_digest, now, expires_at, *redeemed) if redeemed else None
    # Only receivers of `app_authorized` read the row, and most installations have none.
    return cast(AccessToken, SimpleLazyObject(partial(STORED.instance, row))) if row else None


def explain(form: dict[str, str], client: Client, address: str) -> RequestError | None:
    """The error to raise when `redeem` returned None; None when it finds no reason. A replay revokes the token.

    The code_verifier is checked before a replay is: a person who has read a code, but has no verifier, must not revoke
    the token that was issued for the code. D9, D13, D14, D17.
    """
    verifier = form.get("code_verifier", "")
    row = next(iter(AuthorizationCode.objects.raw(FIND, [digest_of(form["code"])])), None)
    if row is None:
        return RequestError(Fault.CODE_UNKNOWN)
    if row.application_id != client.pk:
        return RequestError(Fault.CODE_OF_ANOTHER)
    if row.code_challenge and not verifier:
        return RequestError(Fault.VERIFIER_MISSING)
    if row.code_challenge and challenge_of(verifier) != row.code_challenge:
        return RequestError(Fault.VERIFIER_WRONG)
    if row.redeemed_at is not None:
        return _explain_redeemed(row, client, address)
    if row.expires_at <= timezone.now():
        return RequestError(Fault.CODE_EXPIRED)
    if not row.person_is_active:
        return RequestError(Fault.CODE_PERSON_AWAY)
    if row.is_ended:
        return RequestError(Fault.CODE_REVOKED)
    if verifier and not row.code_challenge:
        return RequestError(Fault.VERIFIER_UNASKED)
    if form.get("redirect_uri", row.redirect_uri) != row.redirect_uri:
        credentials = [form[name] for name in ("code", "client_secret", "code_verifier") if name in form]
        sent = redirect_uris.quoted_for_description(form["redirect_uri"], without=credentials)
        return RequestError(
            Fault.CODE_REDIRECT_URI, sent=sent, issued_for=redirect_uris.quoted_for_description(row.redirect_uri)
        )
    return None


def _explain_redeemed(row: AuthorizationCode, client: Client, address: str) -> RequestError:
    """A replay revokes the token that was issued for the code; the same exchange sent twice does not. D13.

    A double click or a retry is far likelier than a theft, and only the holder of the secret or of the code_verifier
    can send the code again. Only the clock decides, however long the second request waited for a thread. A redemption
    in the future means that the clock was set back: its age is unknown, so the second one counts as a replay.
    """
    now = timezone.now()
    redeemed_at = row.redeemed_at or now
    if redeemed_at <= now < redeemed_at + SENT_TWICE_WITHIN:
        return RequestError(Fault.CODE_RACED)
    tokens.revoke(bytes(row.token_digest or b""))
    age = max(now - redeemed_at, timedelta()).total_seconds()
    logger.warning(
        "code replayed, token revoked",
        extra={"client_id": client.client_id, "code_row": row.pk, "age_seconds": round(age, 1), "address": address},
    )
    return CodeReplayed(row, age)


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 §4.2); an empty string for no verifier."""
    if not verifier:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
