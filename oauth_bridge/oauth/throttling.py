"""The rate limits of the OAuth operations. A reached limit raises RequestError (429) with `Retry-After`."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest

from config.infrastructure import rate_limits
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.network import client_address
from config.infrastructure.rate_limits import Counter
from oauth_bridge.credentials.random_values import digest_of

# The share of a public application's limit at user info that one person may use: people have the tokens on their own
# devices.
SHARE_OF_ONE_PERSON = 0.1


def page(limit: str, request: HttpRequest) -> None:
    """Limit the requests of one network address to RATE_AUTHORIZE. `limit`: the page, "authorize" or "logout"."""
    _raise_if(limit, rate_limits.count(*rate_limits.by_address(limit, client_address(request))))


def before_exchange(application_id: int, *, is_public: bool) -> None:
    """Limit the exchanges of one application to RATE_TOKEN. Call this before the code is redeemed.

    `is_public`: count nothing here, because anybody can send the client_id. `exchange_of_public` counts the successes.
    """
    counter = Counter("token", str(application_id))
    _raise_if("token", rate_limits.exceeded(counter) if is_public else rate_limits.count(counter))


def exchange_of_public(application_id: int) -> None:
    rate_limits.count(Counter("token", str(application_id)))


def token_failure(address: str, client_id: str) -> None:
    """Limit the failures with one client_id from one network address to RATE_TOKEN_FAILURES.

    Anybody can invent client_ids, so all failures from one address together are limited to ten times this number.
    """
    of_all = rate_limits.by_address("token_failures", address, rate_limits.ROTATING)
    of_client = Counter("token_failures", f"{address} {digest_of(client_id).hex()}")
    _raise_if("token_failures", rate_limits.attempt(of_client, *of_all))


def token_state(operation: str, application_id: int) -> None:
    """Limit an application's calls to RATE_USERINFO for each `operation` ("revoke" or "introspect")."""
    _raise_if(operation, rate_limits.count(Counter(operation, str(application_id))))


def userinfo(application_id: int, person_id: UUID, *, is_public: bool) -> None:
    """Limit an application's profile requests to RATE_USERINFO. `is_public`: also limit each person to a tenth."""
    counters = [Counter("userinfo", str(application_id))]
    if is_public:
        counters.insert(0, Counter("userinfo", f"{application_id} {person_id}", SHARE_OF_ONE_PERSON))
    _raise_if("userinfo", rate_limits.count(*counters))


def userinfo_failure(request: HttpRequest) -> None:
    """Limit one network address's requests without a valid access token to RATE_USERINFO_FAILURES."""
    failures = rate_limits.by_address("userinfo_failures", client_address(request))
    _raise_if("userinfo_failures", rate_limits.attempt(*failures))


def _raise_if(limit: str, seconds: int) -> None:
    if seconds:
        error = RequestError(SiteFault.RATE_LIMITED, {"Retry-After": str(seconds)}, seconds=seconds)
        raise error.about(cause=f"throttled_{limit}")
