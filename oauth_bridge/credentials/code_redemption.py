"""Redeem an authorization code, or explain why it was not redeemed. Specification 3; D9, D13, D14.

The statement `REDEEM` contains the conditions for a redemption. `explain` checks the same conditions and changes
nothing. `codes` issues the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config.infrastructure.sql import Rows, as_uuid, fetch_one, is_postgresql
from oauth_bridge.callback_addresses.masking import quoted_for_description
from oauth_bridge.credentials import codes, pkce, tokens
from oauth_bridge.credentials.admission import FOR_EVERYBODY, admits
from oauth_bridge.credentials.codes import CODES
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.credentials.tokens import APPLICATIONS, FROM_CODE, PEOPLE, STORED
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import AccessToken, AuthorizationCode

# A second redemption within this time is the same exchange sent twice; a later one is a replay (D13).
SENT_TWICE_WITHIN = timedelta(seconds=3)

# The columns that the token or the answer needs from a redeemed code.
REDEEMED = Rows(AuthorizationCode, "id", *FROM_CODE)


@dataclass(frozen=True, slots=True)
class Redemption:
    """A redeemed code and the token that was stored for it.

    Model instances are made only on access, because many requests need none.
    """

    code_values: Sequence[Any]
    token_values: Sequence[Any]

    @property
    def code(self) -> AuthorizationCode:
        return REDEEMED.instance(self.code_values)

    @property
    def person_id(self) -> UUID:
        """The person's primary key. No model instance is made."""
        return as_uuid(self.code_values[REDEEMED.names.index("user_id")])

    @property
    def openid(self) -> str | None:
        """The facts for the ID token, as JSON; None for a plain OAuth 2.0 request."""
        return self.code_values[REDEEMED.names.index("openid")]  # type: ignore[no-any-return]

    @property
    def token(self) -> AccessToken:
        return STORED.instance(self.token_values)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a code is not redeemed. `code` is the code or its replacement, if known.

    `details` are values in the error message. `cause` is the private cause if it is more exact than the fault,
    and otherwise empty.
    """

    fault: OAuthFault
    code: AuthorizationCode | None = None
    details: dict[str, Any] = field(default_factory=dict)
    cause: str = ""


# `explain` checks the conditions of REDEEM in the same order, with one exception: a code_verifier for a code without a
# code_challenge (D9) is checked later.

REDEEM = f"""
    UPDATE {CODES} SET redeemed_at = %(now)s, token_digest = %(token_digest)s
     WHERE digest = %(digest)s
       AND application_id = %(application_id)s
       AND code_challenge = %(code_challenge)s
       AND redeemed_at IS NULL
       AND expires_at > %(now)s
       AND EXISTS (SELECT 1 FROM {PEOPLE} u
                    WHERE u.id = user_id AND u.is_active AND u.credentials_version = person_version)
       AND EXISTS (SELECT 1 FROM {APPLICATIONS} a
                    WHERE a.id = application_id AND a.credentials_version = application_version
                      AND {FOR_EVERYBODY})
       AND redirect_uri = coalesce(%(redirect_uri)s, redirect_uri)
 RETURNING {REDEEMED.columns(CODES)}
"""  # noqa: S608

# The statement for an application with groups. `credentials.admission` explains why there are two statements.
REDEEM_OF_MEMBER = REDEEM.replace(FOR_EVERYBODY, admits(f"{CODES}.user_id"))


def _and_store(redeem: str) -> str:
    return f"""
      WITH redeemed AS ({redeem}), stored AS ({tokens.STORE_REDEEMED})
    SELECT {REDEEMED.columns("redeemed")}, {STORED.columns("stored")} FROM redeemed, stored
"""  # noqa: S608


REDEEM_AND_STORE = {REDEEM: _and_store(REDEEM), REDEEM_OF_MEMBER: _and_store(REDEEM_OF_MEMBER)}

FIND_CODE = f"""
    SELECT c.id, c.digest, c.attempt, c.application_id, c.user_id, c.redirect_uri, c.code_challenge, c.expires_at,
           c.redeemed_at,
           c.token_digest, u.is_active AS person_is_active,
           CASE WHEN c.person_version <> u.credentials_version THEN 'code_ended_person'
                WHEN a.id IS NULL OR c.application_version <> a.credentials_version THEN 'code_ended_application'
                WHEN NOT {admits("c.user_id")} THEN 'code_ended_group'
           END AS ended_by
      FROM {CODES} c JOIN {PEOPLE} u ON u.id = c.user_id LEFT JOIN {APPLICATIONS} a ON a.id = c.application_id
     WHERE c.digest = %(digest)s
"""  # noqa: S608


def redeem(
    form: dict[str, str],
    application_id: int,
    token: str,
    *,
    is_restricted: bool = False,
) -> Redemption | None:
    """Redeem the code and store the token in one transaction. None: the code cannot be redeemed.

    `form` contains `code` and, if they were sent, `code_verifier` and `redirect_uri`. `is_restricted`: only people in
    the application's groups may use the application. If `is_restricted` is false, no code of a restricted application
    is redeemed. If the result is None, `explain` finds the reason.

    Specification 3.1, 3.2; D10, D13, D14, D17, D23; RFC 7636 §4.6. Lifetime of the token: 3,600 seconds.
    """
    now = timezone.now()
    values = {
        "now": now,
        "digest": digest_of(form["code"]),
        "application_id": application_id,
        "code_challenge": pkce.challenge_of(form.get("code_verifier", "")),
        "redirect_uri": form.get("redirect_uri"),
        "token_digest": digest_of(token),
        "token_expires_at": now + tokens.lifetime(),
    }
    statement = REDEEM_OF_MEMBER if is_restricted else REDEEM
    if is_postgresql():
        row = fetch_one(REDEEM_AND_STORE[statement], **values)
        return Redemption(row[: len(REDEEMED)], row[len(REDEEMED) :]) if row else None
    with transaction.atomic():
        code = fetch_one(statement, **values)
        if not code:
            return None
        return Redemption(code, fetch_one(tokens.STORE, **values | dict(zip(REDEEMED.names, code, strict=True))))


def explain(form: dict[str, str], application_id: int) -> Refusal | None:
    """The reason why `redeem` returned None; None if no reason is found. This function only reads.

    `explain` checks the code_verifier before it checks for a replay. Otherwise, somebody who has a code but not its
    verifier could revoke the code's token. D9, D13, D14, D17, D23.
    """
    verifier = form.get("code_verifier", "")
    row = next(iter(AuthorizationCode.objects.raw(FIND_CODE, {"digest": digest_of(form["code"])})), None)
    now = timezone.now()  # read the clock after the row, so that `redeemed_at` is not later than `now`
    if row is None:
        ended = codes.ended(form["code"])
        return Refusal(OAuthFault.CODE_UNKNOWN, ended.successor, cause=ended.cause)
    if row.application_id != application_id:
        return Refusal(OAuthFault.CODE_OF_ANOTHER, row)
    if row.code_challenge and not verifier:
        return Refusal(OAuthFault.VERIFIER_MISSING, row)
    if row.code_challenge and not pkce.matches(verifier, row.code_challenge):
        return Refusal(OAuthFault.VERIFIER_WRONG, row)
    if row.redeemed_at is not None:
        return _explain_redeemed(row, row.redeemed_at, now)
    if row.expires_at <= now:
        return Refusal(OAuthFault.CODE_EXPIRED, row)
    if not row.person_is_active:
        return Refusal(OAuthFault.CODE_PERSON_AWAY, row, cause="person_deactivated")
    if row.ended_by:
        return Refusal(OAuthFault.CODE_REVOKED, row, cause=row.ended_by)
    if verifier and not row.code_challenge:
        return Refusal(OAuthFault.VERIFIER_UNASKED, row)
    if form.get("redirect_uri", row.redirect_uri) != row.redirect_uri:
        credentials = [form[name] for name in ("code", "client_secret", "code_verifier") if name in form]
        sent = quoted_for_description(form["redirect_uri"], without=credentials)
        issued_for = quoted_for_description(row.redirect_uri)
        return Refusal(OAuthFault.CODE_REDIRECT_URI, row, {"sent": sent, "issued_for": issued_for})
    return None


def _explain_redeemed(row: AuthorizationCode, redeemed_at: datetime, now: datetime) -> Refusal:
    """Decide whether a second redemption is a replay, or the same exchange sent twice. D13.

    `oauth.exchange` ends the token of a replayed code.

    Within SENT_TWICE_WITHIN, a double click or a retry is far more likely than a theft. Only the holder of the secret
    or the code_verifier can send the code again. The time of this check decides, even if the second request waited long
    for a thread. If `redeemed_at` is in the future, the clock was set back, and the age of the redemption is unknown.
    So the second request counts as a replay.
    """
    if redeemed_at <= now < redeemed_at + SENT_TWICE_WITHIN:
        return Refusal(OAuthFault.CODE_RACED, row)
    age = max(now - redeemed_at, timedelta()).total_seconds()
    return Refusal(OAuthFault.CODE_SPENT, row, {"age": round(age, 1)})
