"""Read session and `request.user` in one statement. If the session ends during a post, show a page that explains it."""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, middleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions import middleware as sessions
from django.contrib.sessions.exceptions import SessionInterrupted
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts import return_path
from accounts.models import User
from accounts.sessions.store import SessionStore

# A redirect to one of these paths means that the post was not carried out.
_ASKING_FIRST = ("account_login", "account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn")


class SessionMiddleware(sessions.SessionMiddleware):
    """If a signed-in person's session ends during a post, tells the person whether the post was carried out.

    The view itself or another browser can end the session. Django notices the end of a session when it saves the
    session, after the view has answered.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            return cast(HttpResponseBase, super().__call__(request))
        except SessionInterrupted:
            if request.method != "POST" or not request.user.is_authenticated:
                raise
        answer: HttpResponseBase = request.answer  # type: ignore[attr-defined]
        location = answer.get("Location", "")
        if location and not return_path.is_own_path(location):  # the redirect leads to an application
            return answer
        was_refused = getattr(request, "was_refused", False)
        is_done = location and not was_refused and location.partition("?")[0] not in map(reverse, _ASKING_FIRST)
        sign_in_url = return_path.sign_in_url(location if is_done else request.get_full_path())
        context = {"is_done": is_done, "sign_in_url": sign_in_url}
        status = HTTPStatus.OK if is_done else HTTPStatus.FORBIDDEN
        return render(request, "accounts/interrupted.html", context, status=status)


class AuthenticationMiddleware(middleware.AuthenticationMiddleware):
    """Sets `request.user` as Django's middleware does, without a second statement for the person."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.user = cast(User, SimpleLazyObject(lambda: _signed_in_person(request) or AnonymousUser()))
        answer: HttpResponseBase = self.get_response(request)  # type: ignore[assignment]
        request.answer = answer  # type: ignore[attr-defined]  # for SessionMiddleware
        return answer


def _signed_in_person(request: HttpRequest) -> User | None:
    """Return the signed-in person, or None. The account must be active, and the session must be valid.

    A session is valid if its hash matches the current password and `credentials_version`. Unlike Django, keep the key
    of a session whose hash was made with one of SECRET_KEY_FALLBACKS: open pages are bound to the key, and the requests
    of other tabs still send it.
    """
    session = cast(SessionStore, request.session)
    person = session.person
    if (
        person is None
        or not person.is_active
        or session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS
    ):
        return None
    stored, present = session.get(HASH_SESSION_KEY, ""), person.get_session_auth_hash()
    if not any(constant_time_compare(stored, each) for each in (present, *person.get_session_auth_fallback_hash())):
        session.flush()
        return None
    if stored != present:
        session[HASH_SESSION_KEY] = present
    session.store_use()
    return person
