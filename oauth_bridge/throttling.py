"""The rate limits of this package, one function for each. D21; `config.infrastructure.limits` counts.

Each function raises RequestError with 429 `rate_limited` and `Retry-After` when its limit is reached. RATE_LIMITS=off
turns all limits off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.http import HttpRequest

from config.infrastructure import limits
from config.infrastructure.limits import Counter
from config.infrastructure.network import client_address
from oauth_bridge.credentials import digest_of
from oauth_bridge.errors import Fault, RequestError

# The part of a public application's limit at user info that one person may use.
SHARE_OF_ONE_PERSON = 0.1


def authorize(request: HttpRequest) -> None:
    """RATE_AUTHORIZE: authorization requests from one network address."""
    _raise_if_limited(limits.count(*limits.by_address("authorize", client_address(request))))


@contextmanager
def exchange(application_id: int, client_id: str, address: str, *, is_public: bool) -> Iterator[None]:
    """RATE_TOKEN: exchanges of one application. The code is redeemed inside this context.

    A confidential client is already authenticated, so every exchange counts. A public client is identified only by a
    redeemed code, because anybody can send its client_id: only successes count against the application's limit, which
    is checked first, and failures count against the address. Concurrent exchanges of a public client may therefore
    exceed the limit.
    """
    counter = Counter("token", str(application_id))
    if not is_public:
        _raise_if_limited(limits.count(counter))
        yield
        return
    _raise_if_limited(limits.exceeded(counter))
    try:
        yield
    except RequestError:
        token_failure(address, client_id)
        raise
    limits.count(counter)


def token_failure(address: str, client_id: str) -> None:
    """RATE_TOKEN_FAILURES: failed authentications from one address for one client_id.

    A second limit, ten times as high, counts all client_ids together, because anybody can invent new ones.
    """
    _count_failure(
        Counter("token_failures", f"{address} {digest_of(client_id).hex()}"),
        *limits.by_address("token_failures", address, limits.ROTATING),
    )


def userinfo(application_id: int, person_id: UUID, *, is_public: bool) -> None:
    """RATE_USERINFO: profiles that one application reads.

    People hold the tokens of a public client themselves, so one person may use only a tenth of its limit.
    """
    counters = [Counter("userinfo", str(application_id))]
    if is_public:
        counters.insert(0, Counter("userinfo", f"{application_id} {person_id}", SHARE_OF_ONE_PERSON))
    _raise_if_limited(limits.count(*counters))


def userinfo_failure(request: HttpRequest) -> None:
    """RATE_USERINFO_FAILURES: invalid tokens from one network address."""
    _count_failure(*limits.by_address("userinfo_failures", client_address(request)))


def _count_failure(*counters: Counter) -> None:
    _raise_if_limited(limits.attempt(*counters))


def _raise_if_limited(seconds: int) -> None:
    if seconds:
        raise RequestError(Fault.RATE_LIMITED, {"Retry-After": str(seconds)}, seconds=seconds)
