"""The limits of failed sign-ins, of sign-ups, of mails that somebody asks for, and of pictures. D21.

The limit is checked before the password and the failure is counted after it, so simultaneous attempts may exceed a
limit by their number. This is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.cache import cache
from django.db.models import F
from django.http import HttpRequest

from accounts.models import User, normalise_email
from accounts.sessions import known_browsers
from config.infrastructure import rate_limits
from config.infrastructure.network import client_address, site_of
from config.infrastructure.rate_limits import Counter

# Failed sign-ins of all unknown browsers together: at 25 ms for each password, half a core. By RATE_SIGN_IN_ADDRESS one
# machine has at most 250 in a quarter of an hour (its IPv4 address and its IPv6 site), so it never reaches this limit.
ALL_FAILURES = "1200/m"
RESETS_PER_ADDRESS = "20/m"
NEW_PASSWORDS_PER_ADDRESS = "20/m"
# Codes and links that one address may ask for, to any mailboxes.
MAILS_PER_ADDRESS = "200/h"
# Accounts that one address may ask for. The purge keeps those that are never confirmed for 30 days (P19).
SIGN_UPS_PER_ADDRESS = "20/m"
SIGN_UPS_PER_ADDRESS_AND_DAY = "300/d"
PASSKEY_OPTIONS_PER_ADDRESS = "60/m"
# Passkeys that a person adds.
NEW_PASSKEYS = "20/h"
# Each link works for an hour, so a mailbox over this limit still contains a valid link.
RESET_EMAILS = "5/h"
# Codes to new addresses that one person may ask for. Each code may be sent again twice.
NEW_ADDRESSES = "5/h"
# Seconds of CPU time that reading the pictures of one person may take, each at least one. Other uploads wait meanwhile.
# A picture may begin below the limit and exceed it by at most accounts.pictures.reencoder.MAX_CPU_SECONDS.
PICTURE_SECONDS = "6/m"
PICTURE_SECONDS_IN_AN_HOUR = "40/h"
LONGEST_PICTURE_SECONDS = 40  # longer than the wait and the reading in pictures.reencoder_process
# Mails that strangers can have sent to one mailbox: that the address has an account already, and codes of each kind.
TAKEN_MAILS = "5/h"
CODES = "10/h"
# How many times RESET_EMAILS one mailbox gets from all unknown browsers together.
RESET_EMAILS_FROM_ALL = 3
# Of AccountFault.SIGN_IN_LIMITED, by the name of the counter.
_SIGN_IN_CAUSES = {
    "sign_in_account": "sign_in_limited_account",
    "sign_in_address": "sign_in_limited_address",
    "sign_in": "sign_in_limited_everybody",
}


def sign_in_wait(request: HttpRequest, email: str) -> tuple[int, str]:
    """Seconds until this browser may try this account again, and the cause; 0 when it may now.

    The widest limit is asked first, as in `rate_limits.exceeded`.
    """
    for counter in reversed(_counters_with_floor(request, email)):
        if seconds := rate_limits.exceeded(counter):
            return seconds, _SIGN_IN_CAUSES[counter.name]
    return 0, ""


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    rate_limits.count(*_counters_with_floor(request, email))


def unlock_sign_in(person: User) -> None:
    """Begin a new count of the failed sign-ins of the account, in all browsers. Failures of an address still count."""
    User.objects.filter(pk=person.pk).update(unlocks=F("unlocks") + 1)


def reset_wait(request: HttpRequest) -> int:
    """Count a request for a reset link against its network address: 0, or the seconds to wait."""
    return rate_limits.attempt(*rate_limits.by_address("reset", client_address(request), rate=RESETS_PER_ADDRESS))


def sign_in_begun_wait(request: HttpRequest, person: User) -> int:
    """Count a right password, by account and address: 0, or the seconds to wait.

    Each begins a session that waits for the next step for an hour.
    """
    browser = known_browsers.find(request, person.email)
    rate = settings.RATES.get("sign_in_done", "")
    return rate_limits.attempt(_account_counters("sign_in_begun", request, person.email, browser, 1, rate)[0])


def sign_in_done_wait(request: HttpRequest, person: User) -> int:
    """Count a sign-in that is completed, by account; a known browser by itself: 0, or the seconds to wait.

    A new password, which ends all credentials, also begins a new count.
    """
    browser = known_browsers.find(request, person.email)
    account = f"{known_browsers.account_mark(person.email)} {person.credentials_version}"
    return rate_limits.attempt(Counter("sign_in_done", f"{account}:{browser}" if browser else account))


def sign_up_wait(request: HttpRequest) -> int:
    """Count a request for an account against its network address: 0, or the seconds to wait."""
    address = client_address(request)
    minute = rate_limits.by_address("sign_up", address, rate=SIGN_UPS_PER_ADDRESS)
    return rate_limits.attempt(
        *minute, *rate_limits.by_address("sign_up_day", address, rate=SIGN_UPS_PER_ADDRESS_AND_DAY)
    )


def new_password_wait(request: HttpRequest) -> int:
    """Count a new password that was posted to the page of a reset link: 0, or the seconds to wait."""
    return rate_limits.attempt(
        *rate_limits.by_address("new_password", client_address(request), rate=NEW_PASSWORDS_PER_ADDRESS)
    )


def mail_wait(request: HttpRequest, email: str) -> int:
    """Count a mail with a code or link against the network address that asks for it: 0, or the seconds to wait.

    A browser in which the account of the mailbox has signed in before is counted apart.
    """
    browser = known_browsers.find(request, email)
    if browser:
        counters = [Counter("mail", f"{_mailbox(email)}:{browser}", rate=MAILS_PER_ADDRESS)]
    else:
        counters = rate_limits.by_address("mail", client_address(request), rate=MAILS_PER_ADDRESS)
    return rate_limits.attempt(*counters)


def passkey_options_wait(request: HttpRequest) -> int:
    """Count a request for the options of a passkey against its network address: 0, or the seconds to wait."""
    return rate_limits.attempt(*_passkeys(request))


def passkey_wait(request: HttpRequest) -> int:
    """Seconds until this network address may answer with a passkey again; 0 when it may now."""
    return rate_limits.exceeded(*_passkeys(request))


def count_failed_passkey(request: HttpRequest) -> None:
    rate_limits.count(*_passkeys(request))


def _passkeys(request: HttpRequest) -> list[Counter]:
    return rate_limits.by_address("passkey_options", client_address(request), rate=PASSKEY_OPTIONS_PER_ADDRESS)


def new_passkey_wait(person: User) -> int:
    """Count a passkey that the person adds: 0, or the seconds to wait."""
    return rate_limits.attempt(Counter("new_passkey", str(person.pk), rate=NEW_PASSKEYS))


def may_send_reset_email(request: HttpRequest, email: str) -> bool:
    """Whether another reset e-mail may go to the address now, which is then counted."""
    browser = known_browsers.find(request, email)
    return not rate_limits.attempt(
        *_account_counters("reset_mail", request, _mailbox(email), browser, RESET_EMAILS_FROM_ALL, RESET_EMAILS)
    )


def new_address_wait(person: User) -> int:
    """Count a code to a new address against the person who asked for it: 0, or the seconds to wait."""
    return rate_limits.attempt(Counter("new_address", str(person.pk), rate=NEW_ADDRESSES))


def picture_wait(person: User) -> int:
    """Seconds until another picture of the person is read; 0 when it is read now."""
    return rate_limits.exceeded(*_pictures(person))


def count_picture(person: User, seconds: int) -> None:
    """Count seconds of CPU time that reading a picture of the person took."""
    for counter in _pictures(person):
        rate_limits.count(*[counter] * seconds)


@contextmanager
def one_picture(person: User) -> Iterator[bool]:
    """Whether no other picture of the person waits or is read until the end of this context, by any worker.

    A second picture would delay other people. Always true while Redis is away.
    """
    key = f"picture:{person.pk}"
    is_only_one = cache.add(key, True, LONGEST_PICTURE_SECONDS)
    try:
        yield is_only_one
    finally:
        if is_only_one:
            cache.delete(key)


def _pictures(person: User) -> list[Counter]:
    return [
        Counter("picture", str(person.pk), rate=PICTURE_SECONDS),
        Counter("picture_hour", str(person.pk), rate=PICTURE_SECONDS_IN_AN_HOUR),
    ]


def may_send_taken_mail(email: str) -> bool:
    """Whether another mail "you already have an account" may go to the address now, which is then counted."""
    return not rate_limits.attempt(Counter("taken_mail", _mailbox(email), rate=TAKEN_MAILS))


def code_wait(email: str, *, is_new: bool) -> int:
    """Count a code to the address, apart for new addresses of accounts: 0, or the seconds to wait."""
    mailbox = _mailbox(email)
    return rate_limits.attempt(Counter("code_mail", f"{mailbox} new" if is_new else mailbox, rate=CODES))


def _mailbox(email: str) -> str:
    """Identifies the mailbox in the limits of mails: `user+tag@` is usually the mailbox of `user@`.

    Only these limits treat them as one.
    """
    name, _at, host = normalise_email(email).rpartition("@")
    return known_browsers.account_mark(f"{name.partition('+')[0] or name}@{host}")


def _counters_with_floor(request: HttpRequest, email: str) -> list[Counter]:
    return [counter._replace(has_floor=True) for counter in _sign_in_counters(request, email)]


def _sign_in_counters(request: HttpRequest, email: str) -> list[Counter]:
    browser = known_browsers.find(request, email)
    counters = _account_counters("sign_in_account", request, _unlocked_mark(email), browser, rate_limits.ROTATING)
    if browser:
        return counters
    everybody = Counter("sign_in", "all", rate=ALL_FAILURES)
    return [*counters, *rate_limits.by_address("sign_in_address", client_address(request)), everybody]


def _unlocked_mark(email: str) -> str:
    """Identifies the account since its last unlocking. One statement, the same for an address without an account."""
    mark = known_browsers.account_mark(email)
    unlocks = User.objects.filter(email=normalise_email(email)).values_list("unlocks", flat=True).first()
    return f"{mark} {unlocks}" if unlocks else mark


def _account_counters(
    name: str, request: HttpRequest, account: str, browser: str, times_from_all: int, rate: str = ""
) -> list[Counter]:
    """A known browser is counted by itself, any other by account and address.

    Otherwise a few wrong passwords from anywhere would lock the owner out. Rotating addresses reach a wider limit,
    which does not count known browsers. IPv6 counts by site here: one machine has few sites and many addresses.
    """
    if browser:
        return [Counter(name, f"{account}:{browser}", rate=rate)]
    address = client_address(request)
    return [
        Counter(name, f"{account} {site_of(address) or address}", rate=rate),
        Counter(name, account, times_from_all, rate),
    ]
