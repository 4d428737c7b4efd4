"""Count sign-ins, second factors, sign-ups, passkeys and requested e-mails. config.limits_and_lifetimes has the limits.

A public function `…_wait` counts the event and returns 0, or returns the seconds to wait. `sign_in_wait` never counts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import ceil
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts import audit_trail
from accounts.email_addresses import mailbox_of
from accounts.errors import AccountFault, refused
from accounts.mail import composing
from accounts.models import FailedFactor, User
from accounts.sessions import known_browsers
from config.infrastructure import events, rate_limits
from config.infrastructure.network import client_address, site_of
from config.infrastructure.rate_limits import Counter

T = TypeVar("T")

# Maps the name of a counter to the cause of AccountFault.SIGN_IN_LIMITED.
_SIGN_IN_CAUSES = {
    "sign_in_account": "sign_in_limited_account",
    "sign_in_address": "sign_in_limited_address",
    "sign_in": "sign_in_limited_everybody",
}
# From this number of failed second factors in unknown browsers on, the owner gets an e-mail, at most once a day: the
# guesser knows the password.
_TELL_FROM = 3


def sign_in_wait(request: HttpRequest, email: str) -> tuple[int, str, UUID | None]:
    """Return the seconds to wait (or 0), the cause for the log (or ""), and the ID of the address's owner (or None)."""
    counters, person = _failed_sign_ins(request, email)
    for counter in reversed(counters):
        if seconds := rate_limits.exceeded(counter):
            return seconds, _SIGN_IN_CAUSES[counter.name], person
    return 0, "", person


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    # Counted after the check of the password, so simultaneous attempts may exceed a limit.
    rate_limits.count(*_failed_sign_ins(request, email)[0])


def address_wait(request: HttpRequest, *limits: str) -> int:
    return rate_limits.attempt(*_of_address(request, *limits))


def person_wait(person: User, limit: str) -> int:
    return rate_limits.attempt(Counter(limit, str(person.pk)))


def mailbox_wait(email: str, limit: str, kind: str = "") -> int:
    return rate_limits.attempt(Counter(limit, f"{_mailbox(email)} {kind}".strip()))


def mail_wait(request: HttpRequest, email: str) -> int:
    if browser := known_browsers.find(request, email):
        return rate_limits.attempt(Counter("mail", f"{_mailbox(email)}:{browser}"))
    return address_wait(request, "mail")


def may_send_reset_email(request: HttpRequest, email: str) -> bool:
    times = settings.RESET_MAILS_FROM_ALL
    return not rate_limits.attempt(*_of_account("reset_mail", request, email, _mailbox(email), times))


def sign_in_begun_wait(request: HttpRequest, person: User) -> int:
    return rate_limits.attempt(_of_account("sign_in_begun", request, person.email, person.email)[0])


def sign_in_done_wait(request: HttpRequest, person: User) -> int:
    # A change of the credentials begins a new count.
    account = f"{known_browsers.account_mark(person.email)} {person.credentials_version}"
    return rate_limits.attempt(_of_account("sign_in_done", request, person.email, account)[-1])


def check_second_factor(request: HttpRequest, person: User, check: Callable[[], T]) -> T:
    """At the limit, raise ValidationError. Otherwise, return `check()`. Count a ValidationError that `check` raises."""
    rate, is_sign_in = settings.RATES.get("second_factor", ""), not request.user.is_authenticated
    with transaction.atomic():
        # Under the lock of the person's row, the limit is exact. It needs no Redis, because failures are rows.
        if not User.objects.select_for_update(no_key=True).filter(pk=person.pk):  # the account was deleted
            rate = ""
        browser, address = known_browsers.find(request, person.email), client_address(request)
        source = salted_hmac("accounts.factors.failures", browser or site_of(address) or address, algorithm="sha256")
        failed = FailedFactor(user=person, source=source.hexdigest()[:32], is_known=bool(browser))
        if rate and (seconds := _second_factor_wait(failed, rate)):
            raise refused(AccountFault.FACTOR_LIMITED, "throttled", person=person.pk, seconds=seconds)
        try:
            result = check()
        except ValidationError as error:
            failure = error
        else:
            events.write(events.Event.SECOND_FACTOR_USED, person=person.pk, is_sign_in=is_sign_in)
            return result
        if rate and _count_second_factor(failed, rate) >= _TELL_FROM and is_sign_in and not failed.is_known:
            once = f"second_factor_failed {person.pk} {timezone.now():%Y-%m-%d}"
            composing.tell(request, person, "second_factor_failed", once)
    raise failure


@transaction.atomic
def unlock(person: User) -> None:
    """Forget the person's failed sign-ins and failed second factors. Counts of network addresses stay."""
    User.objects.filter(pk=person.pk).update(unlocks=F("unlocks") + 1)
    FailedFactor.objects.filter(user=person).delete()
    events.write(events.Event.ACCOUNT_UNLOCKED, person=person.pk)
    audit_trail.write("account_unlocked", audit_trail.of_person(person))


def _second_factor_wait(failed: FailedFactor, rate: str) -> int:
    now, allowed = timezone.now(), rate_limits.parse(rate).events
    rows = FailedFactor.objects.filter(user=failed.user, expires_at__gt=now).order_by("-expires_at")
    # The rows of the newest failures, of which the oldest must expire first.
    counted = [rows.filter(source=failed.source)[allowed - 1 : allowed]]
    if not failed.is_known:  # all unknown browsers together have a limit too
        all_allowed = allowed * rate_limits.ROTATING
        counted.append(rows.filter(is_known=False)[all_allowed - 1 : all_allowed])
    ends = [row.expires_at for found in counted for row in found]
    return max(1, ceil((max(ends) - now).total_seconds())) if ends else 0


def _count_second_factor(failed: FailedFactor, rate: str) -> int:
    """Store the failure. Return the number of the person's failures in all unknown browsers."""
    now, rows = timezone.now(), FailedFactor.objects.filter(user=failed.user)
    rows.filter(expires_at__lte=now).delete()
    failed.expires_at = now + timedelta(seconds=rate_limits.parse(rate).seconds)
    failed.save()
    return rows.filter(is_known=False).count()


def _of_address(request: HttpRequest, *limits: str) -> list[Counter]:
    address = client_address(request)
    return [counter for limit in limits for counter in rate_limits.by_address(limit, address)]


def _mailbox(email: str) -> str:
    return known_browsers.account_mark(mailbox_of(email))


def _failed_sign_ins(request: HttpRequest, email: str) -> tuple[list[Counter], UUID | None]:
    row = User.objects.filter(email=email).values_list("pk", "unlocks").first()
    person, unlocks = row or (None, 0)
    account = f"{known_browsers.account_mark(email)} {unlocks}"  # each unlocking begins a new count
    counters = _of_account("sign_in_account", request, email, account, rate_limits.ROTATING)
    if len(counters) > 1:  # the browser is unknown
        counters += [*_of_address(request, "sign_in_address"), Counter("sign_in", "all")]
    return counters, person


def _of_account(name: str, request: HttpRequest, email: str, account: str, times: float = 1) -> list[Counter]:
    """Return one counter for a known browser, otherwise two: of the network address and of all unknown browsers."""
    # Wrong passwords from elsewhere must not lock the owner out of a known browser.
    if browser := known_browsers.find(request, email):
        return [Counter(name, f"{account}:{browser}")]
    address = client_address(request)
    # IPv6 addresses are counted by /48 network, because one machine has many addresses.
    return [Counter(name, f"{account} {site_of(address) or address}"), Counter(name, account, times)]
