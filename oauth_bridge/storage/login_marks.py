"""What stands for an address that was typed at the sign-in and names no account: an HMAC of it. D24.

An administrator who enters the address finds its records. When the address becomes somebody's, they get the records.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import get_user_model

from accounts.former_addresses import marks_of
from oauth_bridge.activity_models import ActivityRecord


def of(address: str) -> bytes:
    """Under the first SECRET_KEY."""
    return marks_of(address)[0]


def all_of(address: str) -> list[bytes]:
    """Under SECRET_KEY and each of SECRET_KEY_FALLBACKS, to find records that were written before a rotation."""
    return marks_of(address)


def give(person_id: UUID) -> None:
    """The records of the person's present address, if it is confirmed, become the person's."""
    confirmed = get_user_model().objects.filter(pk=person_id, email_verified_at__isnull=False)
    if address := confirmed.values_list("email", flat=True).first():
        marked = ActivityRecord.objects.filter(login_mark__in=all_of(address))
        marked.update(person=person_id, login_mark=None)
