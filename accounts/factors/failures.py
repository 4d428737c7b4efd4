"""The limit of failed second factors: wrong codes and refused passkey answers.

Each failure is a row, and a lock of the person's row protects the count. So the limit applies to simultaneous guesses
in all workers, and works without Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import ceil
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.errors import AccountFault, refused
from accounts.mail import composing
from accounts.models import FailedFactor, User
from accounts.sessions import known_browsers
from config.infrastructure import events, rate_limits
from config.infrastructure.events import Event
from config.infrastructure.network import client_address, site_of

T = TypeVar("T")

# From TELL_FROM failures on, the owner gets an e-mail, at most once a day: whoever guesses knows the password.
TELL_FROM = 3


def limited(request: HttpRequest, person: User, check: Callable[[], T], *, is_sign_in: bool) -> T:
    """Return the result of `check`, which checks a code or passkey. If it raises ValidationError, count a failure.

    `is_sign_in`: after several failures in unknown browsers, tell the person by e-mail. Raises ValidationError: `check`
    raised it, or the limit is reached and `check` was not called.
    """
    rate = settings.RATES.get("second_factor", "")
    with transaction.atomic():
        if not User.objects.select_for_update(no_key=True).filter(pk=person.pk):  # the account was deleted
            rate = ""
        browser, address = known_browsers.find(request, person.email), client_address(request)
        source = salted_hmac("accounts.factors.failures", browser or site_of(address) or address, algorithm="sha256")
        failed = FailedFactor(user=person, source=source.hexdigest()[:32], is_known=bool(browser))
        if rate and (seconds := _wait(failed, rate)):
            raise refused(AccountFault.FACTOR_LIMITED, "throttled", person=person.pk, seconds=seconds)
        try:
            result = check()
        except ValidationError as error:
            failure = error
        else:
            events.write(Event.SECOND_FACTOR_USED, person=person.pk, is_sign_in=is_sign_in)
            return result
        if rate and _count(failed, rate) >= TELL_FROM and is_sign_in and not failed.is_known:
            once = f"second_factor_failed {person.pk} {timezone.now():%Y-%m-%d}"
            composing.tell(request, person, "second_factor_failed", once)
    raise failure


def forget(person: User) -> None:
    FailedFactor.objects.filter(user=person).delete()


def _wait(failed: FailedFactor, rate: str) -> int:
    """Return the seconds until `failed.source` may try again, or 0. All unknown browsers together have a limit too."""
    now, allowed = timezone.now(), rate_limits.parse(rate).events
    rows = FailedFactor.objects.filter(user=failed.user, expires_at__gt=now).order_by("-expires_at")
    # The rows of the newest failures, of which the oldest must expire first.
    counted = [rows.filter(source=failed.source)[allowed - 1 : allowed]]
    if not failed.is_known:
        all_allowed = allowed * rate_limits.ROTATING
        counted.append(rows.filter(is_known=False)[all_allowed - 1 : all_allowed])
    ends = [row.expires_at for found in counted for row in found]
    return max(1, ceil((max(ends) - now).total_seconds())) if ends else 0


def _count(failed: FailedFactor, rate: str) -> int:
    now, rows = timezone.now(), FailedFactor.objects.filter(user=failed.user)
    rows.filter(expires_at__lte=now).delete()
    failed.expires_at = now + timedelta(seconds=rate_limits.parse(rate).seconds)
    failed.save()
    return rows.filter(is_known=False).count()
