"""The pending authorization request, between the application's link and the answer on the consent page. D5, D8.

It travels signed and dated in URLs and forms, not in the session: tabs can't overwrite each other's, nothing is stored
for strangers, and every page can go on. A consent page carries it bound to the person and the browser session;
elsewhere it contains no more than the application's link.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

from django.core import signing
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.protocol import parameters
from oauth_bridge.protocol.authorization import AuthorizationRequest

SALT = "oauth_bridge.consent.pending"
# The name of the parameter and of the form field. `request` belongs to OpenID Connect.
FIELD_NAME = "pending"
PAGE_LIFETIME = timedelta(hours=1)


class Damaged(Exception):
    """The sealed request was not signed here, or was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest(AuthorizationRequest):
    """`attempt` names the one consent that it can lead to; `opened_at` is a Unix time.

    `bound_to` is set on a consent page.
    """

    attempt: str
    opened_at: int
    bound_to: str = ""

    @classmethod
    def read(cls, request: HttpRequest) -> PendingRequest:
        """The pending request of a consent form, of a link of ours, or a new one for an application's link.

        Raises RequestError: it is damaged, or names no client.
        """
        if request.method == "POST":
            sealed = parameters.of_form(request, is_kept=True).get(FIELD_NAME, "")
        else:
            query = parameters.of_query(request)
            sealed = query.text(FIELD_NAME)
            if not sealed:
                return cls.begin(AuthorizationRequest.from_query(query))
        try:
            return cls.unseal(sealed)
        except Damaged:
            raise RequestError(Fault.REQUEST_DAMAGED) from None

    @classmethod
    def begin(cls, request: AuthorizationRequest) -> PendingRequest:
        return cls(**asdict(request), attempt=new_attempt(), opened_at=int(time.time()))

    @classmethod
    def unseal(cls, sealed: str) -> PendingRequest:
        """Raises Damaged: it was not signed here, or was changed."""
        try:
            return cls(**signing.loads(sealed, salt=SALT))
        except (signing.BadSignature, TypeError, ValueError, json.JSONDecodeError):
            raise Damaged from None

    def seal(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    def bind(self, request: HttpRequest) -> PendingRequest:
        """The request as a consent page of this person in this browser carries it."""
        return replace(self, bound_to=_binding(request), opened_at=int(time.time()))

    def is_answerable(self, request: HttpRequest) -> bool:
        """Whether the answer of a consent page counts: same person, same browser, at most an hour old."""
        is_fresh = int(time.time()) - self.opened_at < PAGE_LIFETIME.total_seconds()
        return is_fresh and constant_time_compare(self.bound_to, _binding(request))

    def renewed(self) -> PendingRequest:
        """The same request as a new attempt: the person starts again on purpose."""
        return replace(self, attempt=new_attempt(), bound_to="", opened_at=int(time.time()))

    def unbound(self) -> PendingRequest:
        return replace(self, bound_to="")


def new_attempt() -> str:
    """A UUID of version 7 (RFC 9562 §5.7): in the order of time, so the index of attempts grows at its end only.

    PostgreSQL has the page at the end in memory; a random UUID would change any page.
    """
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | secrets.randbits(80)
    return f"{number & ~(0xF << 76 | 0b11 << 62) | 7 << 76 | 0b10 << 62:032x}"


def _binding(request: HttpRequest) -> str:
    bound = f"{request.user.pk} {request.session.session_key}"
    return salted_hmac(SALT, bound, algorithm="sha256").hexdigest()
