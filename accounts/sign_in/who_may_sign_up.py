"""Decide who may make an account: anybody, only invited people, or nobody (SIGN_UP)."""

from __future__ import annotations

from urllib.parse import urlencode

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.urls import reverse

FIELD_NAME = "invitation"

_SALT = "accounts.invitations"


def link(email: str) -> str:
    """Return a URL that lets the owner of the address sign up within seven days. The owner must confirm the address."""
    query = urlencode({FIELD_NAME: signing.dumps(email, salt=_SALT)})
    return f"{settings.AUTH_URL}{reverse('account_signup')}?{query}"


def invited_address(request: HttpRequest) -> str:
    """Return the address of the invitation in the request, or an empty string without a valid invitation."""
    sealed = request.POST.get(FIELD_NAME) or request.GET.get(FIELD_NAME) or ""
    try:
        return str(signing.loads(sealed, salt=_SALT, max_age=settings.INVITATION_AGE))
    except (signing.BadSignature, ValueError):
        return ""


def may_sign_up(request: HttpRequest) -> bool:
    """Return whether the request may make an account. Unless SIGN_UP is open, the form requires the invited address."""
    return settings.SIGN_UP == "open" or (settings.SIGN_UP == "invitation" and bool(invited_address(request)))
