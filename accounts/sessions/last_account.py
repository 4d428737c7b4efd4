"""Remember which account last signed in with a browser, and offer the account on the sign-in page.

An encrypted cookie contains the person's id, so a reader of the cookie learns nothing. On the sign-in page, the person
can delete the cookie. The cookie is valid until the person's credentials end. So a lost device does not show the
account after the owner has chosen a new password.
"""

from __future__ import annotations

import base64
import json
import time
import uuid

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.models import User
from config.infrastructure import sealing
from config.infrastructure.own_cookies import set_cookie

_PURPOSE = "accounts.last-account"


def offered(request: HttpRequest) -> User | None:
    """Return the person whose ID is in the cookie. A statement runs only if this service made the cookie."""
    cookie = request.COOKIES.get(settings.LAST_ACCOUNT_COOKIE_NAME, "")
    try:
        content = sealing.unseal(_PURPOSE, base64.urlsafe_b64decode(cookie + "=="))
    except ValueError:
        content = None
    if content is None:
        return None
    person_id, version, set_at = json.loads(content)
    if time.time() - set_at > settings.KNOWN_BROWSER_AGE_SECONDS:
        return None
    return User.objects.filter(pk=uuid.UUID(person_id), credentials_version=version, is_active=True).first()


def offer(response: HttpResponseBase, person: User) -> None:
    """Set the cookie after the person has signed in with this browser."""
    content = json.dumps([str(person.pk), person.credentials_version, int(time.time())])
    # The value has no padding, because Python would quote a value with "=" (config.http.bounds).
    value = base64.urlsafe_b64encode(sealing.seal(_PURPOSE, content.encode())).decode().rstrip("=")
    set_cookie(response, settings.LAST_ACCOUNT_COOKIE_NAME, value, settings.KNOWN_BROWSER_AGE_SECONDS)


def withdraw(response: HttpResponseBase) -> None:
    """Delete the cookie."""
    response.delete_cookie(settings.LAST_ACCOUNT_COOKIE_NAME, samesite="Lax")
