"""Count sign-ins, sign-ups, requested e-mails and passkeys. D21. The limits: config.limits_and_lifetimes.

The limit is checked before the password is checked, and a failure is counted afterwards. So several simultaneous
attempts may exceed a limit together. This imprecision is accepted.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.http import HttpRequest

from accounts.email_addresses import mailbox_of
from accounts.models import User
from accounts.sessions import known_browsers
from config.infrastructure import rate_limits
from config.infrastructure.network import client_address, site_of
from config.infrastructure.rate_limits import Counter

# Maps the name of a counter to the cause of AccountFault.SIGN_IN_LIMITED.
_SIGN_IN_CAUSES = {
    "sign_in_account": "sign_in_limited_account",
    "sign_in_address": "sign_in_limited_address",
    "sign_in": "sign_in_limited_everybody",
}


class SignInWait(NamedTuple):
    """The seconds until a browser may try an account again (0: now), the cause, and the owner of the account if any."""

    seconds: int
    cause: str
    person: UUID | None


def sign_in_wait(request: HttpRequest, email: str) -> SignInWait:
    """Return how long this browser must wait before it may try this account.

    The limit that covers the largest number of browsers is checked first, as in `rate_limits.exceeded`.
    """
    account = _account(email)
    for counter in reversed(_sign_in_counters(request, email, account)):
        if seconds := rate_limits.exceeded(counter):
            return SignInWait(seconds, _SIGN_IN_CAUSES[counter.name], account.person)
    return SignInWait(0, "", account.person)


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    rate_limits.count(*_sign_in_counters(request, email, _account(email)))


def unlock_sign_in(person: User) -> None:
    """Begin a new count of the account's failed sign-ins in all browsers. The counts of network addresses stay."""
    User.objects.filter(pk=person.pk).update(unlocks=F("unlocks") + 1)


def reset_wait(request: HttpRequest) -> int:
    """Count a request for a reset link from this network address. Return the seconds to wait, or 0."""
    return rate_limits.attempt(
        *rate_limits.by_address("reset", client_address(request), rate=settings.RESETS_PER_ADDRESS)
    )


def sign_in_begun_wait(request: HttpRequest, person: User) -> int:
    """Count a right password for this account and network address. Return the seconds to wait, or 0.

    Each right password begins a session that waits an hour for the next step.
    """
    browser = known_browsers.find(request, person.email)
    rate = settings.RATES.get("sign_in_done", "")
    return rate_limits.attempt(_account_counters("sign_in_begun", request, person.email, browser, 1, rate)[0])


def sign_in_done_wait(request: HttpRequest, person: User) -> int:
    """Count a completed sign-in of the account. Return the seconds to wait, or 0.

    A known browser has its own count. A new password, which ends all credentials, begins a new count.
    """
    browser = known_browsers.find(request, person.email)
    account = f"{known_browsers.account_mark(person.email)} {person.credentials_version}"
    return rate_limits.attempt(Counter("sign_in_done", f"{account}:{browser}" if browser else account))


def sign_up_wait(request: HttpRequest) -> int:
    """Count a request for an account from this network address. Return the seconds to wait, or 0."""
    address = client_address(request)
    minute = rate_limits.by_address("sign_up", address, rate=settings.SIGN_UPS_PER_ADDRESS)
    return rate_limits.attempt(
        *minute, *rate_limits.by_address("sign_up_day", address, rate=settings.SIGN_UPS_PER_ADDRESS_AND_DAY)
    )


def new_password_wait(request: HttpRequest) -> int:
    """Count a new password that was posted to the page of a reset link. Return the seconds to wait, or 0."""
    return rate_limits.attempt(
        *rate_limits.by_address("new_password", client_address(request), rate=settings.NEW_PASSWORDS_PER_ADDRESS)
    )


def mail_wait(request: HttpRequest, email: str) -> int:
    """Count a mail with a code or link that this network address requests. Return the seconds to wait, or 0.

    A browser that is known for the account of the mailbox has its own count.
    """
    browser = known_browsers.find(request, email)
    if browser:
        counters = [Counter("mail", f"{_mailbox(email)}:{browser}", rate=settings.MAILS_PER_ADDRESS)]
    else:
        counters = rate_limits.by_address("mail", client_address(request), rate=settings.MAILS_PER_ADDRESS)
    return rate_limits.attempt(*counters)


def passkey_options_wait(request: HttpRequest) -> int:
    """Count a request for passkey options from this network address. Return the seconds to wait, or 0."""
    return rate_limits.attempt(*_passkeys(request))


def passkey_wait(request: HttpRequest) -> int:
    """Return the seconds until this network address may send a passkey answer again, or 0."""
    return rate_limits.exceeded(*_passkeys(request))


def count_failed_passkey(request: HttpRequest) -> None:
    rate_limits.count(*_passkeys(request))


def _passkeys(request: HttpRequest) -> list[Counter]:
    return rate_limits.by_address("passkey_options", client_address(request), rate=settings.PASSKEY_OPTIONS_PER_ADDRESS)


def new_passkey_wait(person: User) -> int:
    """Count a passkey that the person adds. Return the seconds to wait, or 0."""
    return rate_limits.attempt(Counter("new_passkey", str(person.pk), rate=settings.NEW_PASSKEYS_PER_PERSON))


def may_send_reset_email(request: HttpRequest, email: str) -> bool:
    """Return whether another reset e-mail may be sent to the address now. If so, count the e-mail."""
    browser = known_browsers.find(request, email)
    return not rate_limits.attempt(
        *_account_counters(
            "reset_mail",
            request,
            _mailbox(email),
            browser,
            settings.RESET_MAILS_FROM_ALL,
            settings.RESET_MAILS_PER_MAILBOX,
        )
    )


def new_address_wait(person: User) -> int:
    """Count a code that this person requests for a new address. Return the seconds to wait, or 0."""
    return rate_limits.attempt(Counter("new_address", str(person.pk), rate=settings.NEW_ADDRESSES_PER_PERSON))


def may_send_taken_mail(email: str) -> bool:
    """Return whether another e-mail "you already have an account" may be sent now. If so, count the e-mail."""
    return not rate_limits.attempt(Counter("taken_mail", _mailbox(email), rate=settings.TAKEN_MAILS_PER_MAILBOX))


def code_wait(email: str, *, is_new: bool) -> int:
    """Count a code to the mailbox. Codes to new addresses have their own count. Return the seconds to wait, or 0."""
    mailbox = _mailbox(email)
    return rate_limits.attempt(
        Counter("code_mail", f"{mailbox} new" if is_new else mailbox, rate=settings.CODES_PER_MAILBOX)
    )


def _mailbox(email: str) -> str:
    return known_browsers.account_mark(mailbox_of(email))


class _Account(NamedTuple):
    """The identifier of an account in the counters, which each unlocking changes, and the owner if there is one."""

    mark: str
    person: UUID | None


def _account(email: str) -> _Account:
    """Return the account with the address. The function runs the same SQL statement for an unknown address."""
    mark = known_browsers.account_mark(email)
    row = User.objects.filter(email=email).values_list("pk", "unlocks").first()
    person, unlocks = row or (None, 0)
    return _Account(f"{mark} {unlocks}" if unlocks else mark, person)


def _sign_in_counters(request: HttpRequest, email: str, account: _Account) -> list[Counter]:
    browser = known_browsers.find(request, email)
    counters = _account_counters("sign_in_account", request, account.mark, browser, rate_limits.ROTATING)
    if not browser:
        everybody = Counter("sign_in", "all", rate=settings.SIGN_IN_FAILURES_OF_ALL)
        counters += [*rate_limits.by_address("sign_in_address", client_address(request)), everybody]
    return [counter._replace(has_floor=True) for counter in counters]


def _account_counters(
    name: str, request: HttpRequest, account: str, browser: str, times_from_all: int, rate: str = ""
) -> list[Counter]:
    """Return the counter of a known browser, or the counters of the network address and of all unknown browsers.

    A known browser has its own counter, so that a few wrong passwords from elsewhere do not lock the owner out. An
    attacker who uses many network addresses reaches the larger limit of all unknown browsers together. IPv6 addresses
    are counted by site, because one machine has few sites and many addresses.
    """
    if browser:
        return [Counter(name, f"{account}:{browser}", rate=rate)]
    address = client_address(request)
    return [
        Counter(name, f"{account} {site_of(address) or address}", rate=rate),
        Counter(name, account, times_from_all, rate),
    ]
