"""Remember the used codes of authenticator apps, so that no code is accepted twice."""

from __future__ import annotations

import re
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.utils.crypto import salted_hmac

from accounts.models import User

# A code is valid for three periods of 30 seconds. During the three periods, at most four other codes are valid. So the
# last ten used codes include every used code that is still valid.
_REMEMBERED = 10


@transaction.atomic
def mark_used(app: Authenticator, code: str) -> bool:
    """Store that a valid code was used. Return False if the code was used before. RFC 6238 §5.2.

    The row of the app stores a digest of the code. allauth itself remembers a used code for only one period and,
    without Redis, in only one worker.
    """
    row = Authenticator.objects.select_for_update().filter(pk=app.pk).first()
    digest = _digest(code)
    if row is None:
        return False
    used = _used(row.data)
    if digest in used:
        return False
    row.data["used_codes"] = [*used, digest][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True


def was_used(person: User, code: str) -> bool:
    """Return whether the code is one of the last used codes of the person's app."""
    apps = Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP)
    return any(_digest(code) in _used(data) for data in apps.values_list("data", flat=True))


def _used(data: dict[str, Any]) -> list[str]:
    stored = data.get("used_codes")
    return stored if isinstance(stored, list) else []


def _digest(code: str) -> str:
    # allauth accepts any punctuation and white space in a code.
    digits = re.sub(r"[^0-9]", "", code)
    return salted_hmac("accounts.factors.used_codes", digits, algorithm="sha256").hexdigest()
