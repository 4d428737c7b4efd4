"""Find how and when the person of a browser session was authenticated, for the ID token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from allauth.account.authentication import get_authentication_records
from django.http import HttpRequest

ONE_FACTOR = "1"
TWO_FACTORS = "2"

# RFC 8176 has no value for a passkey whose key may be in hardware or in software. So the value is `pop`, proof of
# possession.
_METHODS = {"password": "pwd", "password_reset": "otp", "totp": "otp", "recovery_codes": "otp", "webauthn": "pop"}


class Proof(NamedTuple):
    """The latest proof of identity. `at` is a Unix time with fractions, or None for a session of an earlier release.

    `amr` lists methods of RFC 8176. `acr` is TWO_FACTORS after a second factor. It is also TWO_FACTORS after a passkey
    alone, because the device of the passkey verifies the person.
    """

    at: float | None
    amr: list[str]
    acr: str


def of(request: HttpRequest) -> Proof:
    """Return the latest proof of the signed-in person."""
    return _proof(get_authentication_records(request, request.user))


def _proof(records: Sequence[dict[str, Any]]) -> Proof:
    kinds = [record.get("type") or record["method"] for record in records]
    amr = list(dict.fromkeys(_METHODS[kind] for kind in kinds if kind in _METHODS))
    has_passkey = any(record.get("passwordless") for record in records)
    is_strong = has_passkey or len({"mfa" if record["method"] == "mfa" else "first" for record in records}) > 1
    if is_strong:
        amr.append("mfa")
    return Proof(records[-1]["at"] if records else None, amr, TWO_FACTORS if is_strong else ONE_FACTOR)
