"""Ending what was given out on behalf of a person: the one place that does it."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from accounts.models import User
from accounts.sessions import digest


@transaction.atomic
def end_credentials(user: User, *, except_session: str | None = None) -> None:
    """Void the person's sessions, codes, access tokens, remembered consents and known-browser marks.

    Each of them carries the `credentials_version` it was given out under and is worth nothing under another one.
    `except_session` is the key of a session that stays.
    """
    User.objects.filter(pk=user.pk).update(credentials_version=F("credentials_version") + 1)
    user.refresh_from_db(fields=["credentials_version"])
    sessions = user.sessions.all()
    if except_session:
        sessions = sessions.exclude(session_key=digest(except_session))
    sessions.delete()


@transaction.atomic
def set_active(user: User, is_active: bool) -> None:
    """Deactivate or activate the account. Either way the credentials from before end; nothing ends without a change."""
    if User.objects.filter(pk=user.pk).exclude(is_active=is_active).update(is_active=is_active):
        end_credentials(user)
    user.is_active = is_active
