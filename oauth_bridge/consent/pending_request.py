"""The authorization request between the application's link and the answer on the consent page.

URLs and forms contain the signed request, so requests in several tabs are independent.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, fields, replace
from urllib.parse import urlsplit
from uuid import UUID

from django.core import signing
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from config.infrastructure import errors, paths, sealing
from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.authorization import AuthorizationRequest
from oauth_bridge.oauth.parameters import Parameters

SALT = "oauth_bridge.consent.pending"
# The name of the URL parameter and of the form field. OpenID Connect reserves the name `request`.
FIELD_NAME = "pending"
SEPARATORS = 2  # the colons between the content, the time and the signature
PAGE_LIFETIME_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest(AuthorizationRequest):
    """An authorization request. `bound_to`: the person and session that got the consent page, or "" before that.

    `opened_at`: the Unix time when the consent page was shown, or before that, when the application's link was opened.
    """

    attempt: str
    opened_at: int
    bound_to: str = ""

    @classmethod
    def of_link(cls, query: Parameters) -> PendingRequest:
        """Read the parameter `pending`, or begin a new request. Raises RequestError as `unseal` and `from_query` do."""
        if sealed := query.text(FIELD_NAME):
            return replace(cls.unseal(sealed), repeated=query.repeated((FIELD_NAME,)))
        return cls.from_query(query, attempt=new_attempt(), opened_at=int(time.time()))

    @classmethod
    def of_path(cls, path: str) -> PendingRequest | None:
        """Return the request in a return path, or None if the path has no valid request."""
        url = urlsplit(path)
        if url.path != paths.AUTHORIZE:
            return None
        try:
            return cls.unseal(Parameters(url.query.encode("utf-8", "replace")).text(FIELD_NAME))
        except RequestError:
            return None

    @classmethod
    def unseal(cls, sealed: str) -> PendingRequest:
        """Verify and read a signed request. Raises RequestError: the signature is wrong, or a value is missing."""
        # During an upgrade, another release may have signed a request with more fields, which are ignored.
        try:
            values, known = signing.loads(sealed, salt=SALT), {each.name for each in fields(cls)}
            return cls(**{name: value for name, value in values.items() if name in known})
        except (signing.BadSignature, TypeError, ValueError, json.JSONDecodeError):
            # Mail programs and chats may cut off the end of a long link. The signature is at the end.
            cause = "link_not_ours" if sealed.count(":") == SEPARATORS else "link_cut"
            raise RequestError(OAuthFault.REQUEST_DAMAGED).about(cause=cause) from None

    def seal(self) -> str:
        # `authorization.check` refuses a request with a repeated parameter.
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "repeated"}
        return signing.dumps(values, salt=SALT, compress=True)

    def bind(self, request: HttpRequest) -> PendingRequest:
        return replace(self, bound_to=_bindings(request)[0], opened_at=int(time.time()))

    def is_answerable(self, request: HttpRequest) -> bool:
        """Return whether the consent page was shown to this person in this browser session less than an hour ago."""
        is_fresh = int(time.time()) - self.opened_at < PAGE_LIFETIME_SECONDS
        return is_fresh and any(constant_time_compare(self.bound_to, each) for each in _bindings(request))

    @property
    def asked_at(self) -> float:
        """The later of two Unix times: when the application's link was opened, and one hour ago.

        Without the limit of one hour, a bookmarked consent page would accept the same old proof of identity for ever.
        """
        # The first 48 bits of a UUID of version 7 are its time in milliseconds.
        return max((UUID(self.attempt).int >> 80) / 1000, time.time() - PAGE_LIFETIME_SECONDS)

    def note(self) -> None:
        errors.subject().client_id, errors.subject().attempt = self.client_id, UUID(self.attempt)

    @property
    def person_id(self) -> UUID | None:
        """The ID of the person to whom the consent page was shown, or None before the page is shown."""
        return UUID(self.bound_to.partition(" ")[0]) if self.bound_to else None


def new_attempt() -> str:
    """Return a new value for `attempt`: a hexadecimal UUID of version 7, which contains the time. RFC 9562 §5.7."""
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | secrets.randbits(80)
    return f"{number & ~(0xF << 76 | 0b11 << 62) | 7 << 76 | 0b10 << 62:032x}"


def _bindings(request: HttpRequest) -> list[str]:
    """Return the valid values of `bound_to` for the request: first with SECRET_KEY, then with each former key."""
    digests = sealing.digests(SALT, f"{request.user.pk} {request.session.session_key}")
    return [f"{request.user.pk} {digest}" for digest in digests]
