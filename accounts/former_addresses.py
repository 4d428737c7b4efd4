"""The addresses that a person had before, as marks: keyed digests, from which no address can be read.

With them the activity log finds whose address somebody typed who still uses the former one, so that the record is in
that person's export and goes with them. D24.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from django.utils.crypto import salted_hmac

from accounts.models import FormerAddress, User, normalise_email

_SALT = "oauth_bridge.activity.login"  # as of the records that earlier releases wrote
_BYTES = 8


def marks_of(address: str) -> list[bytes]:
    """Under SECRET_KEY, the first, and each of SECRET_KEY_FALLBACKS: what was stored before a rotation is found."""
    return list(_marks_of(address))


def note(person: User, before: str) -> None:
    """The person has confirmed their address, and had the one before until now. Call it in the transaction of that.

    The new one is nobody's former address any more.
    """
    _forget(person.email)
    if before != person.email:
        _forget(before)
        FormerAddress.objects.create(user=person, mark=next(_marks_of(before)))


def _forget(address: str) -> None:
    FormerAddress.objects.filter(mark__in=marks_of(address)).delete()


def owner_of(address: str) -> UUID | None:
    """The person who had this address last. One statement."""
    return FormerAddress.objects.filter(mark__in=marks_of(address)).values_list("user", flat=True).first()


def _marks_of(address: str) -> Iterator[bytes]:
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield salted_hmac(_SALT, normalise_email(address), secret=key, algorithm="sha256").digest()[:_BYTES]
