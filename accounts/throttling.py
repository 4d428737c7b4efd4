"""Count sign-ins, sign-ups, requested e-mails and passkeys. The limits: config.limits_and_lifetimes.

A failure is counted after the check of the limit and the password, so simultaneous attempts may exceed a limit.
"""

from __future__ import annotations

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


def sign_in_wait(request: HttpRequest, email: str) -> tuple[int, str, UUID | None]:
    """Return the seconds until this browser may try this account (0: now), the cause or "", and the owner or None."""
    mark, person = _account(email)
    for counter in reversed(_failed_sign_ins(request, email, mark)):
        if seconds := rate_limits.exceeded(counter):
            return seconds, _SIGN_IN_CAUSES[counter.name], person
    return 0, "", person


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    mark, _person = _account(email)
    rate_limits.count(*_failed_sign_ins(request, email, mark))


def unlock_sign_in(person: User) -> None:
    User.objects.filter(pk=person.pk).update(unlocks=F("unlocks") + 1)


def address_wait(request: HttpRequest, *limits: str) -> int:
    """Count an event of the network address against each of these limits. Return the seconds to wait, or 0."""
    return rate_limits.attempt(*_of_address(request, *limits))


def _of_address(request: HttpRequest, *limits: str) -> list[Counter]:
    address = client_address(request)
    return [counter for limit in limits for counter in rate_limits.by_address(limit, address)]


def person_wait(person: User, limit: str) -> int:
    return rate_limits.attempt(Counter(limit, str(person.pk)))


def mailbox_wait(email: str, limit: str, kind: str = "") -> int:
    """Count an e-mail to the mailbox against the limit, separately for each kind. Return the seconds to wait, or 0."""
    return rate_limits.attempt(Counter(limit, f"{_mailbox(email)} {kind}".strip()))


def mail_wait(request: HttpRequest, email: str) -> int:
    """Count a mail with a code or link, by known browser or else network address. Return the seconds to wait, or 0."""
    if browser := known_browsers.find(request, email):
        return rate_limits.attempt(Counter("mail", f"{_mailbox(email)}:{browser}"))
    return address_wait(request, "mail")


def may_send_reset_email(request: HttpRequest, email: str) -> bool:
    times = settings.RESET_MAILS_FROM_ALL
    return not rate_limits.attempt(*_of_account("reset_mail", request, email, _mailbox(email), times))


def sign_in_begun_wait(request: HttpRequest, person: User) -> int:
    """Count a right password, which begins a session that waits for the next step. Return the seconds to wait, or 0."""
    return rate_limits.attempt(_of_account("sign_in_begun", request, person.email, person.email)[0])


def sign_in_done_wait(request: HttpRequest, person: User) -> int:
    """Count a completed sign-in. A change of the credentials begins a new count. Return the seconds to wait, or 0."""
    account = f"{known_browsers.account_mark(person.email)} {person.credentials_version}"
    return rate_limits.attempt(_of_account("sign_in_done", request, person.email, account)[-1])


def _mailbox(email: str) -> str:
    return known_browsers.account_mark(mailbox_of(email))


def _account(email: str) -> tuple[str, UUID | None]:
    """Return the account's identifier for counters, which changes at each unlocking, and the owner or None."""
    mark = known_browsers.account_mark(email)
    row = User.objects.filter(email=email).values_list("pk", "unlocks").first()
    person, unlocks = row or (None, 0)
    return f"{mark} {unlocks}" if unlocks else mark, person


def _failed_sign_ins(request: HttpRequest, email: str, mark: str) -> list[Counter]:
    counters = _of_account("sign_in_account", request, email, mark, rate_limits.ROTATING)
    if len(counters) > 1:  # the browser is unknown
        counters += [*_of_address(request, "sign_in_address"), Counter("sign_in", "all")]
    return counters


def _of_account(name: str, request: HttpRequest, email: str, account: str, times: float = 1) -> list[Counter]:
    """Return the counter of a known browser, or the counters of the network address and of all unknown browsers.

    A known browser has its own counter, so that a few wrong passwords from elsewhere do not lock the owner out. An
    attacker who uses many network addresses reaches the limit of all unknown browsers together, which `times`
    multiplies. IPv6 addresses are counted by /48 network: one machine has many addresses, but few such networks.
    """
    if browser := known_browsers.find(request, email):
        return [Counter(name, f"{account}:{browser}")]
    address = client_address(request)
    return [Counter(name, f"{account} {site_of(address) or address}"), Counter(name, account, times)]
