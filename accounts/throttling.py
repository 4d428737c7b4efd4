"""How often a sign-in may fail (D21), and how the owner of an account gets in while strangers guess at it.

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

from accounts import limits
from accounts.models import normalise_email
from accounts.network import client_address

_SALT = "accounts.known-browser"
_PEOPLE_PER_BROWSER = 5


def sign_in_wait(request: HttpRequest, email: str) -> int:
    """Seconds until this browser may try this account again; 0 when it may now."""
    return max((limits.exceeded(name, key) for name, key in _counters(request, email)), default=0)


def count_failed_sign_in(request: HttpRequest, email: str) -> None:
    for name, key in _counters(request, email):
        limits.count(name, key)


def _counters(request: HttpRequest, email: str) -> list[tuple[str, str]]:
    """A browser that knows the account is counted by itself; everybody else together, by account and by address.

    Otherwise ten wrong passwords from anywhere would lock the owner out.
    """
    account = _mark(email)
    browser = known_browsers(request).get(account)
    if browser:
        return [("sign_in_account", f"{account}:{browser}")]
    return [("sign_in_account", account), ("sign_in_address", client_address(request))]


def retry_message(seconds: int) -> str:
    if seconds < 60:
        when = ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
    else:
        minutes = ceil(seconds / 60)
        when = ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    return _("Too many failed attempts. Try again in %(when)s.") % {"when": when}


def known_browsers(request: HttpRequest) -> dict[str, str]:
    """The accounts that were signed in to from this browser: mark of the account → random name of the browser."""
    try:
        entries = signing.loads(
            request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, ""),
            salt=_SALT,
            max_age=settings.KNOWN_BROWSER_AGE_SECONDS,
        )
    except (signing.BadSignature, ValueError):
        return {}
    oldest = time.time() - settings.KNOWN_BROWSER_AGE_SECONDS
    return {mark: name for mark, name, noted_at in entries if noted_at > oldest}


def know_browser(request: HttpRequest, response: HttpResponseBase, email: str) -> None:
    """Note on the browser itself, signed and dated, that the owner of the account has signed in here."""
    now = int(time.time())
    known = {_mark(email): secrets.token_hex(8)} | known_browsers(request)
    mine = known.pop(_mark(email))
    entries = [(_mark(email), mine, now), *((mark, name, now) for mark, name in known.items())]
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
