"""The account that signed in last with this browser, which the sign-in page offers and the person can remove.

An encrypted cookie holds the person's id, so whoever reads the cookie learns nothing. It counts until the credentials
end: a browser that was lost shows nothing after the owner has chosen a new password.
"""

from __future__ import annotations

import base64
import json
import uuid

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac

from accounts.models import User
from config.infrastructure.cookies import set_cookie


def offered(request: HttpRequest) -> User | None:
    """The person of the cookie. A statement runs only with a cookie of ours."""
    cookie = request.COOKIES.get(settings.LAST_ACCOUNT_COOKIE_NAME, "")
    try:
        person_id, version = json.loads(_cipher().decrypt(cookie.encode(), ttl=settings.KNOWN_BROWSER_AGE_SECONDS))
    except (InvalidToken, ValueError):
        return None
    return User.objects.filter(pk=uuid.UUID(person_id), credentials_version=version, is_active=True).first()


def remember(response: HttpResponseBase, person: User) -> None:
    """Set the cookie: the person has just signed in with this browser."""
    content = json.dumps([str(person.pk), person.credentials_version])
    value = _cipher().encrypt(content.encode()).decode()
    set_cookie(response, settings.LAST_ACCOUNT_COOKIE_NAME, value, settings.KNOWN_BROWSER_AGE_SECONDS)


def forget(response: HttpResponseBase) -> None:
    """Delete the cookie."""
    response.delete_cookie(settings.LAST_ACCOUNT_COOKIE_NAME, samesite="Lax")


def _cipher() -> MultiFernet:
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    keys = [salted_hmac("accounts.last-account", "", secret=each, algorithm="sha256").digest() for each in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])
