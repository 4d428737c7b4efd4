"""Sets `request.user`, which is read in the same statement as the session."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, middleware
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.sessions import SessionStore


class AuthenticationMiddleware(middleware.AuthenticationMiddleware):
    """Sets `request.user`, which reads the database at its first use.

    Unlike Django's middleware, it needs no second statement for the person, and sets no `request.auser`.
    """

    def process_request(self, request: HttpRequest) -> None:
        request.user = cast(User, SimpleLazyObject(lambda: signed_in_person(request) or AnonymousUser()))


def signed_in_person(request: HttpRequest) -> User | None:
    """The person who is signed in, or None. The backend must be configured, the account active, the session current."""
    session = cast(SessionStore, request.session)
    person = session.person
    if person is None or session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    if not person.is_active:  # the configured AllowAllUsersModelBackend does not check this
        return None
    if not _is_current(session, person):
        session.flush()
        return None
    session.store_use()
    return person


def _is_current(session: SessionStore, person: User) -> bool:
    """Whether the password and `credentials_version` are still those of the sign-in, as the session's hash says.

    A hash that was made with one of SECRET_KEY_FALLBACKS is replaced.
    """
    session_hash = session.get(HASH_SESSION_KEY, "")
    if constant_time_compare(session_hash, person.get_session_auth_hash()):
        return True
    if any(constant_time_compare(session_hash, fallback) for fallback in person.get_session_auth_fallback_hash()):
        session.cycle_key()
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        return True
    return False
