"""Store each former address of a person as a mark: a keyed digest that does not reveal the address.

If somebody tries to sign in with a former address, the activity log uses the mark to find the former owner. So the
record of the attempt appears in the owner's export and is deleted with the owner's account. D24.
"""

from __future__ import annotations

from uuid import UUID

from accounts.models import FormerAddress, User
from config.infrastructure import sealing

_SALT = "oauth_bridge.activity.login"  # earlier releases made their marks with this salt
_BYTES = 8


def marks_of(address: str) -> list[bytes]:
    """Return the marks of the address: first under SECRET_KEY, then under SECRET_KEY_FALLBACKS to find older rows."""
    return [bytes.fromhex(each)[:_BYTES] for each in sealing.digests(_SALT, address)]


def note(person: User, before: str) -> None:
    """Store the address that a person had before confirming a new address. Call this in the transaction of the change.

    Marks of the new address are deleted, because an address in use is not a former address.
    """
    _forget(person.email)
    if before != person.email:
        _forget(before)
        FormerAddress.objects.create(user=person, mark=marks_of(before)[0])


def _forget(address: str) -> None:
    FormerAddress.objects.filter(mark__in=marks_of(address)).delete()


def owner_of(address: str) -> UUID | None:
    """Return the ID of the person who had this address last, or None. The function runs one SQL statement."""
    return FormerAddress.objects.filter(mark__in=marks_of(address)).values_list("user", flat=True).first()
