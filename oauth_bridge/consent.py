"""What a person is asked, what was asked of us, and what is remembered of the answer. D5, D7, D8.

The pending authorization request travels in a signed, dated blob, not in the session: tabs that are opened at once
can't overwrite each other's, nothing is written for strangers, and no page of ours is ever a dead end. On the consent
page the blob is bound to the person and the browser session; elsewhere it says no more than the link that led here.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from django.core import signing
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from oauth_bridge import redirect_uris
from oauth_bridge.models import Application, Consent
from oauth_bridge.parameters import Parameters

if TYPE_CHECKING:
    from accounts.models import User

SALT = "oauth_bridge.consent.pending"
PAGE_LIFETIME = timedelta(hours=1)
REMEMBERED = timedelta(days=180)
CARRIED = ("client_id", "redirect_uri", "response_type", "scope", "code_challenge", "code_challenge_method")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


def new_attempt() -> str:
    """Unique, and in the order of time (RFC 9562 §5.7, version 7), unlike a random UUID: the index of attempts grows at
    its end only, where PostgreSQL finds the page at hand."""
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | secrets.randbits(80)
    return f"{number & ~(0xF << 76 | 0b11 << 62) | 7 << 76 | 0b10 << 62:032x}"


class Damaged(Exception):
    """The blob was not signed here."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """An authorization request as it came: `parameters` that have a value, and `state` percent-encoded byte for byte.

    `attempt` names the one consent it can lead to, `bound_to` is set on a consent page, `opened_at` is a Unix time.
    """

    parameters: dict[str, str]
    state: str | None
    attempt: str
    opened_at: int
    bound_to: str = ""

    @classmethod
    def from_query(cls, query: Parameters) -> PendingRequest:
        # One character more than the longest value that can be right is as wrong as the whole of it.
        sent = {name: query.text(name)[: redirect_uris.MAX_LENGTH + 1] for name in CARRIED}
        return cls(
            parameters={name: value for name, value in sent.items() if value},
            state=query.percent_encoded("state"),
            attempt=new_attempt(),
            opened_at=_now(),
        )

    @classmethod
    def unseal(cls, blob: str) -> PendingRequest:
        """Raises Damaged: the blob was not signed here, or was changed."""
        try:
            return cls(**signing.loads(blob, salt=SALT))
        except (signing.BadSignature, TypeError, ValueError, json.JSONDecodeError):
            raise Damaged from None

    def seal(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    def bind(self, request: HttpRequest) -> PendingRequest:
        """The request as a consent page of this person in this browser carries it."""
        return replace(self, bound_to=_binding(request), opened_at=_now())

    def is_answerable(self, request: HttpRequest) -> bool:
        """Whether a post of the consent page may be believed: same person, same browser, at most an hour old."""
        fresh = _now() - self.opened_at < PAGE_LIFETIME.total_seconds()
        return fresh and constant_time_compare(self.bound_to, _binding(request))

    def renewed(self) -> PendingRequest:
        """The same request as a new attempt: the person starts again on purpose."""
        return replace(self, attempt=new_attempt(), bound_to="", opened_at=_now())

    def unbound(self) -> PendingRequest:
        return replace(self, bound_to="")

    def query(self) -> str:
        """The query of an authorization link that asks for the same."""
        pairs = [f"{name}={quote(value, safe='')}" for name, value in self.parameters.items()]
        if self.state is not None:
            pairs.append(f"state={self.state}")
        return "&".join(pairs)

    @property
    def redirect_uri(self) -> str:
        return self.parameters["redirect_uri"]


# What was remembered --------------------------------------------------------------------------------------------------


def fingerprint(application: Application) -> str:
    """Changes when anything changes that the person agreed to: name, homepage or addresses (D7)."""
    agreed = [application.name, application.homepage, sorted(application.callback_addresses)]
    return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()


def is_remembered(application: Application) -> bool:
    """Whether the person `applications.find` was told of has ticked "don't ask again", and that holds still (D7)."""
    return application.agreed_fingerprint == fingerprint(application)


def remember(person: User, application: Application) -> None:
    """Don't ask the person again for this application, for 180 days (D7)."""
    now = timezone.now()
    Consent.objects.update_or_create(
        user=person,
        application=application,
        defaults={
            "fingerprint": fingerprint(application),
            "given_at": now,
            "expires_at": now + REMEMBERED,
            "person_version": person.credentials_version,
        },
    )


# What the page says ---------------------------------------------------------------------------------------------------


def destination(redirect_uri: str) -> dict[str, Any]:
    """Where the browser will be sent, in words a person can check."""
    parts = urlsplit(redirect_uri)
    is_web = parts.scheme in ("http", "https")
    return {
        "host": parts.netloc if is_web else parts.scheme,
        "uri": redirect_uri,
        "on_this_device": not is_web or parts.hostname in LOOPBACK_HOSTS,
    }


def form_action(redirect_uri: str) -> str:
    """The CSP directive under which a post may lead to the address, hop by hop. `browsers.md` R2; house.md, Pages."""
    scheme = urlsplit(redirect_uri).scheme
    sources = {"https": "https:", "http": "https: http:"}.get(scheme, f"{scheme}:")
    return f"form-action 'self' {sources}"


def _binding(request: HttpRequest) -> str:
    bound = f"{request.user.pk} {request.session.session_key}"
    return salted_hmac(SALT, bound, algorithm="sha256").hexdigest()


def _now() -> int:
    return int(timezone.now().timestamp())
