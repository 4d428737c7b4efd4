"""Find what an OpenID Connect request needs before the consent page. OpenID Connect Core 1.0 §3.1.2.1.

A proof of identity that the person gave after the link was opened, and within the last hour, is recent enough. So a
person is asked only once, although the pending request still contains `prompt` and `max_age`.
"""

from __future__ import annotations

import time
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from django.http import HttpRequest

from accounts import return_path
from accounts.factors import authenticators as factors
from accounts.sign_in import reauthentication
from oauth_bridge.consent.pending_request import PAGE_LIFETIME_SECONDS, PendingRequest
from oauth_bridge.openid.request import NOTHING, Asked

if TYPE_CHECKING:
    from accounts.models import User


class Need(Enum):
    """The needs that a request can have, in the order in which the person is asked."""

    OTHER_ACCOUNT = auto()  # the request expects another person
    PROOF = auto()
    SECOND_FACTOR = auto()
    IMPOSSIBLE = auto()  # a second factor is needed, and the person has none


def need(request: HttpRequest, asked: Asked, pending: PendingRequest) -> Need | None:
    """Return what the request needs next from the signed-in person; None if it needs nothing."""
    if asked is NOTHING:  # a plain OAuth 2.0 request needs no proof
        return None
    person, proof = cast("User", request.user), reauthentication.proof_of(request)
    if asked.subs - {str(person.pk)}:
        return Need.OTHER_ACCOUNT
    proved_at = proof.at or 0.0
    # An old link, such as a bookmark, counts as opened an hour ago, so that it does not accept an old proof for ever.
    asked_at = max(pending.asked_at, time.time() - PAGE_LIFETIME_SECONDS)
    is_late = "login" in asked.prompts and proved_at < asked_at
    is_old = asked.max_age is not None and proved_at < asked_at - asked.max_age
    if is_late or is_old:
        return Need.PROOF
    if proof.acr == reauthentication.TWO_FACTORS or not (asked.wants_two_factors or asked.needs_two_factors):
        return None
    if factors.has_any(person):
        return Need.SECOND_FACTOR
    return Need.IMPOSSIBLE if asked.needs_two_factors else None


def proof_url(request: HttpRequest, what: Need, return_to: str) -> str:
    """Return the URL of the page that asks for the password, a passkey or the second factor, then opens `return_to`."""
    if what is Need.SECOND_FACTOR:
        return return_path.url_of(factors.confirm_path(request.user), return_to)
    return reauthentication.proof_url(request, return_to)
