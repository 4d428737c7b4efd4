"""Recognize the browsers in which a person has signed in before. D21.

A signed cookie marks a known browser. The limits of failed sign-ins count each known browser separately, so failures in
other browsers cannot lock out the owner.
"""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.models import User
from config.infrastructure import sealing
from config.infrastructure.own_cookies import set_cookie

_SALT = "accounts.known-browser"
_ACCOUNTS_PER_BROWSER = 5


class KnownAccount(NamedTuple):
    """The entry of one account in the cookie."""

    browser: str  # a random name
    at: int  # Unix time of the latest sign-in
    credentials_version: int  # the account's version at the latest sign-in


def account_mark(email: str) -> str:
    """Return an identifier of the account for cookies and counters. The identifier hides the e-mail address."""
    return _marks(email)[0]


def find(request: HttpRequest, email: str) -> str:
    """Return the name of this browser, or "" if the person has not used it to sign in since their credentials ended.

    A statement runs only if the cookie has the mark of this account, so response times reveal nothing to strangers.
    """
    entry = _entry(read(request), email)
    if entry is None:
        return ""
    current = User.objects.filter(email=email, credentials_version=entry.credentials_version)
    return entry.browser if current.exists() else ""


def is_new(request: HttpRequest, person: User) -> bool:
    """Return whether this browser's cookie lacks the person, to whom `sign_in.adapter` then sends an e-mail. E5."""
    return _entry(read(request), person.email) is None


def read(request: HttpRequest) -> dict[str, KnownAccount]:
    """Return the accounts that signed in with this browser. The keys are results of `account_mark`."""
    cookie = request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, "")
    try:
        entries = signing.loads(cookie, salt=_SALT, max_age=settings.KNOWN_BROWSER_AGE_SECONDS)
        oldest = time.time() - settings.KNOWN_BROWSER_AGE_SECONDS
        return {mark: KnownAccount(name, at, version) for mark, name, at, version in entries if at > oldest}
    except (signing.BadSignature, ValueError):
        return {}


def add(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """Set the cookie after the person has signed in with this browser."""
    accounts = read(request)
    before, marks = _entry(accounts, user.email), _marks(user.email)
    new = KnownAccount(before.browser if before else secrets.token_hex(8), int(time.time()), user.credentials_version)
    others = [(mark, *entry) for mark, entry in accounts.items() if mark not in marks]
    entries = [(marks[0], *new), *others][:_ACCOUNTS_PER_BROWSER]
    value = signing.dumps(entries, salt=_SALT, compress=True)
    set_cookie(response, settings.KNOWN_BROWSER_COOKIE_NAME, value, settings.KNOWN_BROWSER_AGE_SECONDS)


def _marks(email: str) -> list[str]:
    """Return the mark of the account under SECRET_KEY, then under each fallback, with which older cookies were made."""
    return [digest[:32] for digest in sealing.digests(_SALT, email)]


def _entry(accounts: dict[str, KnownAccount], email: str) -> KnownAccount | None:
    return next((accounts[mark] for mark in _marks(email) if mark in accounts), None)
