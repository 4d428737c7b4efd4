"""How often a sign-in may fail and a reset be asked for (D21), and how an owner gets in while strangers guess.

Failures are looked at before the password and counted after it, so attempts that run at the same moment may go over a
limit by the number of them; that is accepted.
"""

from __future__ import annotations

import secrets
import time
from math import ceil

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User, normalise_email
from config.infrastructure import limits
from config.infrastructure.limits import Counter
from config.infrastructure.network import client_address, site_of

_SALT = "accounts.known-browser"
_PEOPLE_PER_BROWSER = 5

# Failed sign-ins of all unknown browsers together: at 25 ms for each password, half a core. By RATE_SIGN_IN_ADDRESS one
# machine has at most 250 in a quarter of an hour (its IPv4 address and its IPv6 site), so it never gets there.
ALL_FAILURES = "1200/m"
RESETS_PER_ADDRESS = "20/m"
# Each of these links works for an hour, so whoever gets no more of them has one that works.
RESET_MAILS = "5/h"
# How many times RESET_MAILS one mailbox gets from all unknown browsers together.
RESET_MAILS_FROM_EVERYWHERE = 3


def sign_in_wait(request: HttpRequest, email: str) -> int:
    """Seconds until this browser may try this account again; 0 when it may now."""
    return limits.exceeded(*_sign_in_counters(request, email))


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    limits.count(*_sign_in_counters(request, email))


def reset_wait(request: HttpRequest) -> int:
    """Count a request for a reset link against its network address: 0, or the seconds to wait."""
    counters = limits.by_address("reset", client_address(request), rate=RESETS_PER_ADDRESS)
    return limits.exceeded(*counters) or limits.count(*counters)


def may_mail_reset(request: HttpRequest, email: str) -> bool:
    """Whether another reset mail may go to the address now, which is then counted."""
    browser = _known_browser(request, email)
    counters = _account_counters("reset_mail", request, email, browser, RESET_MAILS_FROM_EVERYWHERE, RESET_MAILS)
    return not (limits.exceeded(*counters) or limits.count(*counters))


def _sign_in_counters(request: HttpRequest, email: str) -> list[Counter]:
    browser = _known_browser(request, email)
    counters = _account_counters("sign_in_account", request, email, browser, limits.ROTATING)
    if browser:
        return counters
    everybody = Counter("sign_in", "all", rate=ALL_FAILURES)
    return [*counters, *limits.by_address("sign_in_address", client_address(request)), everybody]


def _account_counters(
    name: str, request: HttpRequest, email: str, browser: str, times_from_everywhere: int, rate: str = ""
) -> list[Counter]:
    """A browser that knows the account is counted by itself; any other by account and address.

    Otherwise a few wrong passwords from anywhere would lock the owner out. Addresses that rotate meet a wider limit,
    which known browsers do not. IPv6 counts by site here, of which one machine holds few.
    """
    account = _mark(email)
    if browser:
        return [Counter(name, f"{account}:{browser}", rate=rate)]
    address = client_address(request)
    return [
        Counter(name, f"{account} {site_of(address) or address}", rate=rate),
        Counter(name, account, times_from_everywhere, rate),
    ]


def retry_message(seconds: int) -> str:
    if seconds < 60:
        when = ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
    else:
        minutes = ceil(seconds / 60)
        when = ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    return _(
        "Too many sign-ins have failed, perhaps not yours. Try again in %(when)s,"
        " or choose a new password with the link below, which works at once."
    ) % {"when": when}


def _known_browser(request: HttpRequest, email: str) -> str:
    """The name of this browser when the account was signed in to from it and its credentials have not been ended since.

    Asks the database only for a browser with a mark of the account, so it tells a stranger nothing by its time.
    """
    name, _noted_at, version = known_browsers(request).get(_mark(email), ("", 0, 0))
    current = User.objects.filter(email=normalise_email(email), credentials_version=version)
    return name if name and current.exists() else ""


def known_browsers(request: HttpRequest) -> dict[str, tuple[str, int, int]]:
    """The accounts that were signed in to from this browser, by their marks.

    Of each the random name of the browser, the Unix time, and the account's `credentials_version` at that time.
    """
    try:
        entries = signing.loads(
            request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, ""),
            salt=_SALT,
            max_age=settings.KNOWN_BROWSER_AGE_SECONDS,
        )
        oldest = time.time() - settings.KNOWN_BROWSER_AGE_SECONDS
        return {mark: (name, noted_at, version) for mark, name, noted_at, version in entries if noted_at > oldest}
    except (signing.BadSignature, ValueError):
        return {}


def know_browser(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """Note on the browser itself, signed and dated, that the owner of the account has signed in here."""
    now, mine = int(time.time()), _mark(user.email)
    known = known_browsers(request)
    name, *_before = known.pop(mine, (secrets.token_hex(8), 0, 0))
    entries = [(mine, name, now, user.credentials_version), *((mark, *noted) for mark, noted in known.items())]
    response.set_cookie(
        settings.KNOWN_BROWSER_COOKIE_NAME,
        signing.dumps(entries[:_PEOPLE_PER_BROWSER], salt=_SALT, compress=True),
        max_age=settings.KNOWN_BROWSER_AGE_SECONDS,
        secure=settings.IS_HTTPS,
        httponly=True,
        samesite="Lax",
    )


def _mark(email: str) -> str:
    """Stands for the account in cookies and counters, so that neither shows an address."""
    return salted_hmac(_SALT, normalise_email(email), algorithm="sha256").hexdigest()[:32]
