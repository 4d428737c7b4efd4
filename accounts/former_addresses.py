"""The former addresses of a person, stored as marks: keyed digests that do not reveal the address.

A person may still type a former address. The activity log finds the owner by the mark, so the record appears in the
owner's export and is deleted with the owner. D24.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from django.utils.crypto import salted_hmac

from accounts.models import FormerAddress, User, normalise_email

_SALT = "oauth_bridge.activity.login"  # the same key as in the records of earlier releases
_BYTES = 8


def marks_of(address: str) -> list[bytes]:
    """The marks of the address under SECRET_KEY (first) and SECRET_KEY_FALLBACKS, which find older rows."""
    return list(_marks_of(address))


def note(person: User, before: str) -> None:
    """Store the former address of a person who has confirmed another. Call this in the same transaction.

    Marks of the new address are deleted: it is no longer anybody's former address.
    """
    _forget(person.email)
    if before != person.email:
        _forget(before)
        FormerAddress.objects.create(user=person, mark=next(_marks_of(before)))


def _forget(address: str) -> None:
    FormerAddress.objects.filter(mark__in=marks_of(address)).delete()


def owner_of(address: str) -> UUID | None:
    """The person who had this address last, read in one statement."""
    return FormerAddress.objects.filter(mark__in=marks_of(address)).values_list("user", flat=True).first()


def _marks_of(address: str) -> Iterator[bytes]:
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield salted_hmac(_SALT, normalise_email(address), secret=key, algorithm="sha256").digest()[:_BYTES]
