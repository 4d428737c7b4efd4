"""The limits of failed sign-ins, of requests for a reset link, of codes to new addresses and of pictures. D21.

Failures are looked up before the password is checked and counted after it, so attempts at the same moment may exceed a
limit by their number. That is accepted.
"""

from __future__ import annotations

from math import ceil

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import known_browsers
from accounts.models import User
from config.infrastructure import limits
from config.infrastructure.limits import Counter
from config.infrastructure.network import client_address, site_of

# Failed sign-ins of all unknown browsers together: at 25 ms for each password, half a core. By RATE_SIGN_IN_ADDRESS one
# machine has at most 250 in a quarter of an hour (its IPv4 address and its IPv6 site), so it never reaches this limit.
ALL_FAILURES = "1200/m"
RESETS_PER_ADDRESS = "20/m"
PASSKEY_OPTIONS_PER_ADDRESS = "60/m"
# Each of these links works for an hour, so a mailbox that gets no further one holds one that works.
RESET_EMAILS = "5/h"
# Codes to new addresses that one person may ask for. Each may be sent again twice.
NEW_ADDRESSES = "5/h"
# Pictures of one person that are read. Each may take accounts.decoder.MAX_CPU_SECONDS, and others wait meanwhile.
PICTURES = "20/h"
# Mails that strangers can have sent to one mailbox: that the address has an account already, and codes of each kind.
TAKEN_MAILS = "5/h"
CODES = "10/h"
# How many times RESET_EMAILS one mailbox gets from all unknown browsers together.
RESET_EMAILS_FROM_ALL = 3


def sign_in_wait(request: HttpRequest, email: str) -> int:
    """Seconds until this browser may try this account again; 0 when it may now."""
    return limits.exceeded(*_sign_in_counters(request, email))


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    limits.count(*_sign_in_counters(request, email))


def reset_wait(request: HttpRequest) -> int:
    """Count a request for a reset link against its network address: 0, or the seconds to wait."""
    return limits.attempt(*limits.by_address("reset", client_address(request), rate=RESETS_PER_ADDRESS))


def passkey_options_wait(request: HttpRequest) -> int:
    """Count a request for the options of a passkey against its network address: 0, or the seconds to wait."""
    counters = limits.by_address("passkey_options", client_address(request), rate=PASSKEY_OPTIONS_PER_ADDRESS)
    return limits.attempt(*counters)


def may_send_reset_email(request: HttpRequest, email: str) -> bool:
    """Whether another reset e-mail may go to the address now, which is then counted."""
    browser = known_browsers.find(request, email)
    return not limits.attempt(
        *_account_counters("reset_mail", request, email, browser, RESET_EMAILS_FROM_ALL, RESET_EMAILS)
    )


def new_address_wait(person: User) -> int:
    """Count a code to a new address against the person who asked for it: 0, or the seconds to wait."""
    return limits.attempt(Counter("new_address", str(person.pk), rate=NEW_ADDRESSES))


def picture_wait(person: User) -> int:
    """Seconds until another picture of the person is read; 0 when it is read now."""
    return limits.exceeded(_pictures(person))


def count_picture(person: User) -> None:
    limits.count(_pictures(person))


def _pictures(person: User) -> Counter:
    return Counter("picture", str(person.pk), rate=PICTURES)


def may_send_taken_mail(email: str) -> bool:
    """Whether another mail "you already have an account" may go to the address now, which is then counted."""
    return not limits.attempt(Counter("taken_mail", known_browsers.account_mark(email), rate=TAKEN_MAILS))


def code_wait(email: str, *, is_new: bool) -> int:
    """Count a code to the address, apart for new addresses of accounts: 0, or the seconds to wait."""
    mark = known_browsers.account_mark(email)
    return limits.attempt(Counter("code_mail", f"{mark} new" if is_new else mark, rate=CODES))


def _sign_in_counters(request: HttpRequest, email: str) -> list[Counter]:
    browser = known_browsers.find(request, email)
    counters = _account_counters("sign_in_account", request, email, browser, limits.ROTATING)
    if browser:
        return counters
    everybody = Counter("sign_in", "all", rate=ALL_FAILURES)
    return [*counters, *limits.by_address("sign_in_address", client_address(request)), everybody]


def _account_counters(
    name: str, request: HttpRequest, email: str, browser: str, times_from_all: int, rate: str = ""
) -> list[Counter]:
    """A known browser is counted by itself, any other by account and address.

    Otherwise a few wrong passwords from anywhere would lock the owner out. Rotating addresses reach a wider limit,
    which does not count known browsers. IPv6 counts by site here: one machine has few sites and many addresses.
    """
    account = known_browsers.account_mark(email)
    if browser:
        return [Counter(name, f"{account}:{browser}", rate=rate)]
    address = client_address(request)
    return [
        Counter(name, f"{account} {site_of(address) or address}", rate=rate),
        Counter(name, account, times_from_all, rate),
    ]


def retry_message(seconds: int) -> str:
    return _(
        "Too many sign-ins have failed, perhaps not yours. Try again in %(when)s,"
        " or choose a new password with the link below, which works at once."
    ) % {"when": _duration(seconds)}


def picture_message(seconds: int) -> str:
    return _("You have tried many pictures in a short time. Try again in %(when)s.") % {"when": _duration(seconds)}


def _duration(seconds: int) -> str:
    if seconds < 60:
        return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
    minutes = ceil(seconds / 60)
    return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
