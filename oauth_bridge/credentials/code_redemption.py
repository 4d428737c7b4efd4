"""Redeem an authorization code, or explain why it was not redeemed. Specification 3; RFC 7636 (PKCE)."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config.infrastructure.errors import RequestError
from config.infrastructure.sql import Rows, as_uuid, fetch_one, is_postgresql
from oauth_bridge.callback_addresses.masking import quoted_for_description
from oauth_bridge.credentials import codes, tokens
from oauth_bridge.credentials.admission import admits
from oauth_bridge.credentials.codes import CODES
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.credentials.tokens import APPLICATIONS, FROM_CODE, PEOPLE
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import AuthorizationCode

# A second redemption within this time is the same exchange sent twice; a later one is a replay.
SENT_TWICE_WITHIN = timedelta(seconds=3)

# The columns that an explanation needs.
FOUND = Rows(
    AuthorizationCode,
    *("id", "attempt", "application_id", "user_id", "redirect_uri", "code_challenge", "redeemed_at", "token_digest"),
)


class Redemption(NamedTuple):
    person_id: UUID
    scope: str
    openid: str | None  # `openid.request.Granted` as JSON; None: plain OAuth 2.0


class Condition(NamedTuple):
    table: str  # the part of REDEEM with `sql`: "c" (the code), "u" (its person) or "a" (its application)
    sql: str  # may read `c` and the part's own table
    fault: OAuthFault
    cause: str = ""  # for the activity log


# The first condition that is not met is the reason of a refusal. The code_verifier precedes `redeemed_at`, so that
# somebody who has a code but not its verifier cannot revoke the code's token.
CONDITIONS = (
    Condition("c", "c.application_id = %(application_id)s", OAuthFault.CODE_OF_ANOTHER),
    Condition("c", "c.code_challenge IN ('', %(code_challenge)s)", OAuthFault.VERIFIER_WRONG),
    Condition("c", "c.redeemed_at IS NULL", OAuthFault.CODE_SPENT),
    Condition("c", "c.expires_at > %(now)s", OAuthFault.CODE_EXPIRED),
    Condition("u", "u.is_active", OAuthFault.CODE_PERSON_AWAY, "person_deactivated"),
    Condition("u", "u.credentials_version = c.person_version", OAuthFault.CODE_REVOKED, "code_ended_person"),
    Condition("a", "a.credentials_version = c.application_version", OAuthFault.CODE_REVOKED, "code_ended_application"),
    Condition("a", admits("c.user_id"), OAuthFault.CODE_REVOKED, "code_ended_group"),
    Condition("c", "c.code_challenge = %(code_challenge)s", OAuthFault.VERIFIER_UNASKED),
    Condition("c", "c.redirect_uri = coalesce(%(redirect_uri)s, c.redirect_uri)", OAuthFault.CODE_REDIRECT_URI),
)


def _all_of(table: str) -> str:
    return " AND ".join(each.sql for each in CONDITIONS if each.table == table)


REDEEM = f"""
    UPDATE {CODES} AS c SET redeemed_at = %(now)s, token_digest = %(token_digest)s
     WHERE c.digest = %(digest)s AND {_all_of("c")}
       AND EXISTS (SELECT 1 FROM {PEOPLE} u WHERE u.id = c.user_id AND {_all_of("u")})
       AND EXISTS (SELECT 1 FROM {APPLICATIONS} a WHERE a.id = c.application_id AND {_all_of("a")})
 RETURNING {", ".join(FROM_CODE)}
"""  # noqa: S608
REDEEM_AND_STORE = f"""
      WITH redeemed AS ({REDEEM}), stored AS ({tokens.STORE_REDEEMED}) SELECT user_id, scope, openid FROM redeemed
"""  # noqa: S608
FIND_CODE = f"""
    SELECT {FOUND.columns("c")}, {", ".join(each.sql for each in CONDITIONS)}
      FROM {CODES} c JOIN {PEOPLE} u ON u.id = c.user_id LEFT JOIN {APPLICATIONS} a ON a.id = c.application_id
     WHERE c.digest = %(digest)s
"""  # noqa: S608


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a PKCE verifier, or "" if the verifier is empty. RFC 7636 §4.2."""
    if not verifier:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _values(form: dict[str, str], application_id: int) -> dict[str, Any]:
    return {
        "now": timezone.now(),
        "digest": digest_of(form["code"]),
        "application_id": application_id,
        "code_challenge": challenge_of(form.get("code_verifier", "")),
        "redirect_uri": form.get("redirect_uri"),
    }


def redeem(form: dict[str, str], application_id: int, token: str) -> Redemption | None:
    """Redeem the code and store `token`. Return None if the code is refused. Specification 3.1, 3.2; RFC 7636 §4.6."""
    values = _values(form, application_id)
    values |= {"token_digest": digest_of(token), "token_expires_at": values["now"] + tokens.lifetime()}
    if is_postgresql():
        row = fetch_one(REDEEM_AND_STORE, **values)
        return Redemption(*row) if row else None
    with transaction.atomic():
        row = fetch_one(REDEEM, **values)
        if not row:
            return None
        code = dict(zip(FROM_CODE, row, strict=True))
        fetch_one(tokens.STORE, **(values | code))
        return Redemption(as_uuid(code["user_id"]), code["scope"], code["openid"])


def explain(form: dict[str, str], application_id: int) -> tuple[RequestError, AuthorizationCode | None]:
    """Return the error for a refused code. Also return the row of the code or of its replacement, or None."""
    row = fetch_one(FIND_CODE, **_values(form, application_id))
    if row is None:
        cause, successor = codes.ended(form["code"])
        return RequestError(OAuthFault.CODE_UNKNOWN).about(cause=cause), successor
    code, results = FOUND.instance(row[: len(FOUND)]), row[len(FOUND) :]
    unmet = next((each for each, is_met in zip(CONDITIONS, results, strict=True) if not is_met), None)
    if unmet is None:
        return RequestError(OAuthFault.CODE_RACED).about(cause="reason_unknown"), None
    fault, details = unmet.fault, dict[str, Any]()
    if fault is OAuthFault.VERIFIER_WRONG and "code_verifier" not in form:
        fault = OAuthFault.VERIFIER_MISSING
    elif fault is OAuthFault.CODE_SPENT:
        # If `redeemed_at` is in the future, the clock was set back, and the second request counts as a replay.
        age = timezone.now() - cast(datetime, code.redeemed_at)
        if timedelta() <= age < SENT_TWICE_WITHIN:
            fault = OAuthFault.CODE_RACED
        else:
            details["age"] = round(max(age, timedelta()).total_seconds(), 1)
    elif fault is OAuthFault.CODE_REDIRECT_URI:
        credentials = [form[name] for name in ("code", "client_secret", "code_verifier") if name in form]
        details["sent"] = quoted_for_description(form["redirect_uri"], without=credentials)
        details["issued_for"] = quoted_for_description(code.redirect_uri)
    return RequestError(fault, None, **details).about(cause=unmet.cause), code
