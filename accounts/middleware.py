"""`request.user`, read together with the session."""

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
    """Sets `request.user`, which touches the database when it is first used.

    Django's own needs a second statement for the person. Its asynchronous `request.auser` is not set: no view uses it.
    """

    def process_request(self, request: HttpRequest) -> None:
        request.user = cast(User, SimpleLazyObject(lambda: signed_in_person(request) or AnonymousUser()))


def signed_in_person(request: HttpRequest) -> User | None:
    """Who is signed in: backend configured, account active, session current."""
    session = cast(SessionStore, request.session)
    person = session.person
    if person is None or session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    if not person.is_active:  # the backend, AllowAllUsersModelBackend, does not look
        return None
    if not _is_current(session, person):
        session.flush()
        return None
    return person


def _is_current(session: SessionStore, person: User) -> bool:
    """Whether password and credentials are those of the sign-in. The mark of a retired SECRET_KEY is renewed."""
    session_hash = session.get(HASH_SESSION_KEY, "")
    if constant_time_compare(session_hash, person.get_session_auth_hash()):
        return True
    if any(constant_time_compare(session_hash, retired) for retired in person.get_session_auth_fallback_hash()):
        session.cycle_key()
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        return True
    return False
