"""Codes of authenticator apps that were used, so that each is accepted once."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.utils.crypto import salted_hmac

# A code is valid in its own period, the one before and the one after. Until it ends no more than five codes are valid,
# so that the last ten hold every used code that is still valid.
_REMEMBERED = 10


@transaction.atomic
def mark_used(app: Authenticator, code: str) -> bool:
    """Whether this use of a valid code is its first. RFC 6238 §5.2.

    Stored with the app as a digest. allauth remembers a code for one period only, and without Redis in one worker only.
    """
    row = Authenticator.objects.select_for_update().filter(pk=app.pk).first()
    digest = salted_hmac("accounts.factors.used_codes", code, algorithm="sha256").hexdigest()
    if row is None or digest in (used := row.data.get("used_codes", [])):
        return False
    row.data["used_codes"] = [*used, digest][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True
