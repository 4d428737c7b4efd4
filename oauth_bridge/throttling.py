"""One named function per limit of this package. D21; the counting itself is `accounts.limits`.

Each raises Refused with 429 `rate_limited` and `Retry-After` when its limit is reached; RATE_LIMITS=off ends them all.
"""

from __future__ import annotations

from django.http import HttpRequest

from accounts import limits
from accounts.network import client_address
from oauth_bridge.faults import Fault, Refused


def authorize(request: HttpRequest) -> None:
    """RATE_AUTHORIZE: authorization requests of one network address."""
    _refuse(limits.count_request("authorize", client_address(request)))


def token(application_id: int) -> None:
    """RATE_TOKEN: exchanges of one application, counted once it is authenticated so that nobody else can use it up."""
    _refuse(limits.count_request("token", str(application_id)))


def token_failure(address: str, client_id: str) -> None:
    """RATE_TOKEN_FAILURES: failed client authentications from one address for one application."""
    _refuse(limits.count("token_failures", f"{address} {client_id}"))


def userinfo(application_id: int) -> None:
    """RATE_USERINFO: profiles one application reads."""
    _refuse(limits.count_request("userinfo", str(application_id)))


def userinfo_failure(request: HttpRequest) -> None:
    """RATE_USERINFO_FAILURES: bad tokens from one network address."""
    _refuse(limits.count("userinfo_failures", client_address(request)))


def _refuse(seconds: int) -> None:
    if seconds:
        raise Refused(Fault.RATE_LIMITED, {"Retry-After": str(seconds)}, seconds=seconds)
