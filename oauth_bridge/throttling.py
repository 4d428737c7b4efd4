"""One named function per limit of this package. D21; the counting itself is `config.infrastructure.limits`.

Each raises RequestError with 429 `rate_limited` and `Retry-After` when its limit is reached. RATE_LIMITS=off turns
them all off.
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

# What one person may read of a public application's allowance at user info.
SHARE_OF_ONE_PERSON = 0.1


def authorize(request: HttpRequest) -> None:
    """RATE_AUTHORIZE: authorization requests of one network address."""
    _raise_when_full(limits.count(*limits.by_address("authorize", client_address(request))))


@contextmanager
def exchange(application_id: int, client_id: str, address: str, *, is_public: bool) -> Iterator[None]:
    """RATE_TOKEN: exchanges of one application, around what redeems the code.

    A confidential client has proved itself before, so all it does counts. A public client has not: whoever names it is
    a stranger until the code is redeemed, so its allowance is looked at before and used up by successes only, while its
    failures count by address. Exchanges at the same moment may go over the limit by the number of them.
    """
    counter = Counter("token", str(application_id))
    if not is_public:
        _raise_when_full(limits.count(counter))
        yield
        return
    _raise_when_full(limits.exceeded(counter))
    try:
        yield
    except RequestError:
        token_failure(address, client_id)
        raise
    limits.count(counter)


def token_failure(address: str, client_id: str) -> None:
    """RATE_TOKEN_FAILURES: failed authentications from one address for one application.

    Ten times as many for all client ids together, which anybody can invent.
    """
    _failure(
        Counter("token_failures", f"{address} {digest_of(client_id).hex()}"),
        *limits.by_address("token_failures", address, limits.ROTATING),
    )


def userinfo(application_id: int, person_id: UUID, *, is_public: bool) -> None:
    """RATE_USERINFO: profiles one application reads.

    The tokens of a public client are in people's hands, so that one person may use up a tenth of it only.
    """
    counters = [Counter("userinfo", str(application_id))]
    if is_public:
        counters.insert(0, Counter("userinfo", f"{application_id} {person_id}", SHARE_OF_ONE_PERSON))
    _raise_when_full(limits.count(*counters))


def userinfo_failure(request: HttpRequest) -> None:
    """RATE_USERINFO_FAILURES: bad tokens from one network address."""
    _failure(*limits.by_address("userinfo_failures", client_address(request)))


def _failure(*counters: Counter) -> None:
    _raise_when_full(limits.attempt(*counters))


def _raise_when_full(seconds: int) -> None:
    if seconds:
        raise RequestError(Fault.RATE_LIMITED, {"Retry-After": str(seconds)}, seconds=seconds)
