"""The codes of authenticator apps over time: accept none twice, and tell how far a clock is off. RFC 6238."""

from __future__ import annotations

import base64
import hmac
import re
import time
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction

from accounts.models import User
from config.infrastructure import sealing

_PERIOD_SECONDS = 30
_ACCEPTED_PERIODS = 1  # allauth accepts the codes of this number of periods before and after the present one
_SEARCHED_PERIODS = 20  # `clock_offset` finds the codes of ten minutes before and after the present one
# At most 22 codes are valid now or become valid later and can be marked as used. Until the oldest of them is past, at
# most 22 others are marked after it. So the last 50 marks include each code that must not be accepted again.
_REMEMBERED = 50


@transaction.atomic
def mark_used(app: Authenticator, code: str) -> bool:
    """Store that a valid code was used. Return False if the code was used before. RFC 6238 §5.2.

    The row of the app stores a digest of the code. allauth itself remembers a used code for only one period and,
    without Redis, in only one worker.
    """
    row = Authenticator.objects.select_for_update().filter(pk=app.pk).first()
    digests = _digests(code)
    if row is None:
        return False
    used = _used(row.data)
    if not set(digests).isdisjoint(used):
        return False
    row.data["used_codes"] = [*used, digests[0]][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True


def was_used(person: User, code: str) -> bool:
    """Return whether the code is one of the last used codes of the person's app."""
    apps, digests = Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP), set(_digests(code))
    return any(not digests.isdisjoint(_used(data)) for data in apps.values_list("data", flat=True))


def clock_offset(secret: str, code: str) -> int:
    """Return by how many seconds the code comes too early (positive) or too late (negative); 0 for a wrong code.

    The result is 60 to 600 seconds, in whole periods. `secret` is in base32. The caller marks a code that comes too
    early as used: it becomes valid later, and whoever guesses must not learn that.
    """
    digits, now = re.sub(r"[^0-9]", "", code), int(time.time()) // _PERIOD_SECONDS
    periods = range(_ACCEPTED_PERIODS + 1, _SEARCHED_PERIODS + 1)
    found = (each for period in periods for each in (period, -period) if _code_of(secret, now + each) == digits)
    return next(found, 0) * _PERIOD_SECONDS


def _code_of(secret: str, period: int) -> str:
    """Return the code of a period, counted from 1970. RFC 4226 §5.3."""
    mac = hmac.digest(base64.b32decode(secret, casefold=True), period.to_bytes(8, "big"), "sha1")
    number = int.from_bytes(mac[mac[-1] & 15 :][:4], "big") & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


def _used(data: dict[str, Any]) -> list[str]:
    stored = data.get("used_codes")
    return stored if isinstance(stored, list) else []


def _digests(code: str) -> list[str]:
    # allauth accepts any punctuation and white space in a code.
    return sealing.digests("accounts.factors.used_codes", re.sub(r"[^0-9]", "", code))
