"""What an application learns of a person: four members, always all of them, always strings. Specification 2.4; D16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accounts.avatars import avatar_url
from oauth_bridge.faults import Fault, Refused

if TYPE_CHECKING:
    from accounts.models import User

PROFILE_SCOPE = "profile"


def claims_of(person: User) -> dict[str, str]:
    """The body of the user-info answer.

    Raises Refused: the person has no verified address, so there is none that may leave (D16).
    """
    if person.email_verified_at is None:
        raise Refused(Fault.NO_VERIFIED_EMAIL)
    return {
        "sub": str(person.pk),
        "nickname": person.display_name,
        "email": person.email,
        "avatar": avatar_url(person),
    }
