"""Recognize the browsers in which a person has signed in before, and offer the last account on the sign-in page.

A known browser has its own count of failed sign-ins, so that failures elsewhere do not lock the owner out.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.models import User
from config.infrastructure import sealing
from config.infrastructure.paths import set_cookie

_PURPOSE = "accounts.known-browser"
_ACCOUNTS_PER_BROWSER = 5


class KnownAccount(NamedTuple):
    browser: str  # a random name
    at: int  # Unix time of the latest sign-in
    credentials_version: int  # the account's version at the latest sign-in


def account_mark(email: str) -> str:
    """Return a digest of the address for the keys of rate limits, so that the keys do not reveal the address."""
    return sealing.digests(_PURPOSE, email)[0][:32]


def find(request: HttpRequest, email: str) -> str:
    """Return the random name of this browser, or "" if the browser is not known for this address."""
    known, _is_offered = read(request)
    # The statement runs for every address, so that response times reveal no account.
    people = User.objects.filter(email=email, pk__in=known).values_list("pk", "credentials_version") if known else []
    return next((known[key].browser for key, version in people if known[key].credentials_version == version), "")


def offered(request: HttpRequest) -> User | None:
    known, is_offered = read(request)
    if not known or not is_offered:
        return None
    key, entry = next(iter(known.items()))
    return User.objects.filter(pk=key, credentials_version=entry.credentials_version, is_active=True).first()


def read(request: HttpRequest) -> tuple[dict[UUID, KnownAccount], bool]:
    """Return the accounts in the browser's cookie, and whether to offer the first one, the latest to sign in."""
    cookie = request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, "")
    try:
        content = sealing.unseal(_PURPOSE, base64.urlsafe_b64decode(cookie + "=="))
    except ValueError:
        content = None
    is_offered, entries = json.loads(content) if content else (False, [])
    oldest = time.time() - settings.KNOWN_BROWSER_AGE_SECONDS
    known = {UUID(key): KnownAccount(*entry) for key, *entry in entries}
    return {key: entry for key, entry in known.items() if entry.at > oldest}, is_offered


def add(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    known, _is_offered = read(request)
    before = known.pop(user.pk, None)
    new = KnownAccount(before.browser if before else secrets.token_hex(8), int(time.time()), user.credentials_version)
    _write(response, {user.pk: new, **known}, is_offered=True)


def withdraw(request: HttpRequest, response: HttpResponseBase) -> None:
    """Stop offering the last account on the sign-in page. The browser stays known."""
    _write(response, read(request)[0], is_offered=False)


def _write(response: HttpResponseBase, known: dict[UUID, KnownAccount], *, is_offered: bool) -> None:
    entries = [(str(key), *entry) for key, entry in known.items()][:_ACCOUNTS_PER_BROWSER]
    sealed = sealing.seal(_PURPOSE, json.dumps([is_offered, entries]).encode())
    # The value has no padding, because Python would quote a value with "=" (config.http.middleware).
    value = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
    set_cookie(response, settings.KNOWN_BROWSER_COOKIE_NAME, value, settings.KNOWN_BROWSER_AGE_SECONDS)
