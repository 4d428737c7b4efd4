"""Codes of authenticator apps that were used, so that each is accepted once."""

from __future__ import annotations

import re

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.utils.crypto import salted_hmac

from accounts.models import User

# A code is valid for three periods of 30 seconds, and at most four other codes are valid within that time. So the last
# ten include every used code that is still valid.
_REMEMBERED = 10


def was_used(person: User, code: str) -> bool:
    """Whether the code, in any spelling, is among the last that were accepted from the person's app."""
    app = Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP).first()
    return app is not None and _digest(code) in app.data.get("used_codes", [])


@transaction.atomic
def mark_used(app: Authenticator, code: str) -> bool:
    """Whether this use of a valid code is its first. RFC 6238 §5.2.

    Stored with the app as a digest. allauth remembers a code for one period only, and without Redis in one worker only.
    """
    row = Authenticator.objects.select_for_update().filter(pk=app.pk).first()
    digest = _digest(code)
    if row is None or digest in (used := row.data.get("used_codes", [])):
        return False
    row.data["used_codes"] = [*used, digest][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True


def _digest(code: str) -> str:
    # allauth accepts a code with any punctuation and white space in it.
    digits = re.sub(r"[^0-9]", "", code)
    return salted_hmac("accounts.factors.used_codes", digits, algorithm="sha256").hexdigest()
