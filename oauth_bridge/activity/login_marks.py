"""Marks are HMACs of typed addresses that have no account. The activity log stores marks, not the addresses. D24.

An administrator who enters the address finds the records with its mark. When a person later confirms the address, these
records are assigned to the person.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import get_user_model

from config.infrastructure import sealing
from oauth_bridge.models.activity import ActivityRecord

_SALT = "oauth_bridge.activity.login"
_BYTES = 8


def of(address: str) -> bytes:
    """The mark of the address under SECRET_KEY."""
    return all_of(address)[0]


def all_of(address: str) -> list[bytes]:
    """The marks under SECRET_KEY and each of SECRET_KEY_FALLBACKS. Older records have marks under former keys."""
    return [bytes.fromhex(each)[:_BYTES] for each in sealing.digests(_SALT, address)]


def give(person_id: UUID) -> None:
    """If the person's address is confirmed, assign the records with its marks to the person."""
    confirmed = get_user_model().objects.filter(pk=person_id, email_verified_at__isnull=False)
    if address := confirmed.values_list("email", flat=True).first():
        marked = ActivityRecord.objects.filter(login_mark__in=all_of(address))
        marked.update(person=person_id, login_mark=None)
