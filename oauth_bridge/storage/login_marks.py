"""What stands for an address that was typed at the sign-in and names no account: an HMAC of it. D24.

An administrator who enters the address finds its records. When the address becomes somebody's, they get the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils.crypto import salted_hmac

from accounts.models import normalise_email
from oauth_bridge.activity_models import ActivityRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

_SALT = "oauth_bridge.activity.login"
_BYTES = 8


def of(address: str) -> bytes:
    """Under the first SECRET_KEY."""
    return next(_all_of(address))


def all_of(address: str) -> list[bytes]:
    """Under SECRET_KEY and each of SECRET_KEY_FALLBACKS, to find records that were written before a rotation."""
    return list(_all_of(address))


def give(person_id: UUID) -> None:
    """The records of the person's present address, which has just been confirmed, become the person's."""
    address = get_user_model().objects.filter(pk=person_id).values_list("email", flat=True).first()
    if address:
        marked = ActivityRecord.objects.filter(login_mark__in=all_of(address))
        marked.update(person=person_id, login_mark=None)


def _all_of(address: str) -> Iterator[bytes]:
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield salted_hmac(_SALT, normalise_email(address), secret=key, algorithm="sha256").digest()[:_BYTES]
