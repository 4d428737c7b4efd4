"""The limit of failed second factors: wrong codes and refused passkey answers. D21, L7.

Each failure is a row, and a lock of the person's row protects the count. So the limit applies to simultaneous guesses
in all workers, and works without Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import ceil
from typing import NamedTuple, TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.errors import AccountFault, refused
from accounts.mail import account_mails, outbox
from accounts.models import FailedFactor, User
from accounts.sessions import known_browsers
from config.infrastructure import events, rate_limits
from config.infrastructure.events import Event
from config.infrastructure.network import client_address, site_of

T = TypeVar("T")

# From TELL_FROM failures on, the owner gets an e-mail: whoever guesses the factor knows the password.
TELL_FROM = 3


class Source(NamedTuple):
    """The source of a failure: a digest of a known browser's random name, or else of the network address."""

    digest: str
    is_known: bool


def limited(request: HttpRequest, person: User, check: Callable[[], T], *, is_sign_in: bool) -> T:
    """Return the result of `check`. If `check` raises ValidationError, count a failed code or passkey answer.

    Raises ValidationError: `check` raised it, or the limit is reached and `check` was not called.
    """
    rate = settings.RATES.get("second_factor", "")
    with transaction.atomic():
        if not User.objects.select_for_update(no_key=True).filter(pk=person.pk):  # the account was deleted
            rate = ""
        source = _source(request, person)
        if rate and (seconds := _wait(person, source, rate)):
            raise refused(AccountFault.FACTOR_LIMITED, "throttled", person=person.pk, seconds=seconds)
        try:
            result = check()
        except ValidationError as error:
            failure = error
        else:
            events.write(Event.SECOND_FACTOR_USED, person=person.pk, is_sign_in=is_sign_in)
            return result
        if rate and _count(person, source, rate) >= TELL_FROM and is_sign_in and not source.is_known:
            _tell(request, person)
    raise failure


def forget(person: User) -> None:
    """Delete the person's counted failures of second factors, in all browsers."""
    FailedFactor.objects.filter(user=person).delete()


def _source(request: HttpRequest, person: User) -> Source:
    browser, address = known_browsers.find(request, person.email), client_address(request)
    digest = salted_hmac("accounts.factors.failures", browser or site_of(address) or address, algorithm="sha256")
    return Source(digest.hexdigest()[:32], bool(browser))


def _wait(person: User, source: Source, rate: str) -> int:
    """Return the seconds until the next attempt is allowed, or 0. All unknown browsers also share one limit."""
    now, allowed = timezone.now(), rate_limits.parse(rate).events
    rows = FailedFactor.objects.filter(user=person, expires_at__gt=now).order_by("expires_at")
    found = list(rows.values_list("source", "is_known", "expires_at"))
    counted = [([expires_at for digest, _, expires_at in found if digest == source.digest], allowed)]
    if not source.is_known:
        unknown = [expires_at for _, is_known, expires_at in found if not is_known]
        counted.append((unknown, allowed * rate_limits.ROTATING))
    ends = [times[-most] for times, most in counted if len(times) >= most]
    return max(1, ceil((max(ends) - now).total_seconds())) if ends else 0


def _count(person: User, source: Source, rate: str) -> int:
    """Store a failure and return the number of failures in all unknown browsers."""
    now, rows = timezone.now(), FailedFactor.objects.filter(user=person)
    rows.filter(expires_at__lte=now).delete()
    expires_at = now + timedelta(seconds=rate_limits.parse(rate).seconds)
    FailedFactor.objects.create(user=person, source=source.digest, is_known=source.is_known, expires_at=expires_at)
    return rows.filter(is_known=False).count()


def _tell(request: HttpRequest, person: User) -> None:
    """Send the owner an e-mail, at most once a day."""
    once = f"second_factor_failed {person.pk} {timezone.now():%Y-%m-%d}"
    if not outbox.is_known(once):
        account_mails.tell(request, person, "second_factor_failed", once)
