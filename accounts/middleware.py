"""`request.user`, from the row that the session came in."""

from __future__ import annotations

from typing import cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, middleware
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.sessions import SessionStore


class AuthenticationMiddleware(middleware.AuthenticationMiddleware):
    """Gives `request.user` and `request.auser()`; neither touches the database before somebody asks.

    Django's own spends a second statement on the person.
    """

    def process_request(self, request: HttpRequest) -> None:
        known: list[User | AnonymousUser] = []

        def user() -> User | AnonymousUser:
            if not known:
                known.append(signed_in_person(request) or AnonymousUser())
            return known[0]

        request.user = cast(User, SimpleLazyObject(user))

        async def auser() -> User | AnonymousUser:
            return await sync_to_async(user)()

        request.auser = auser


def signed_in_person(request: HttpRequest) -> User | None:
    """Who is signed in: backend configured, account active, session current."""
    session = cast(SessionStore, request.session)
    person_id, backend_path = session.get(SESSION_KEY), session.get(BACKEND_SESSION_KEY)
    person = session.person
    if person is None or str(person.pk) != person_id or backend_path not in settings.AUTHENTICATION_BACKENDS:
        return None
    if not person.is_active:  # the backend, AllowAllUsersModelBackend, does not look
        return None
    if not _is_current(session, person):
        session.flush()
        return None
    return person


def _is_current(session: SessionStore, person: User) -> bool:
    """Whether the session was begun with the password the person has now; carried over from a retired SECRET_KEY."""
    session_hash = session.get(HASH_SESSION_KEY, "")
    if constant_time_compare(session_hash, person.get_session_auth_hash()):
        return True
    if any(constant_time_compare(session_hash, retired) for retired in person.get_session_auth_fallback_hash()):
        session.cycle_key()
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        return True
    return False
