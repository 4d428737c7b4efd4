"""Browser sessions of people, the sign-ins that applications know, and what a worker's thread does when they end."""

from __future__ import annotations

from uuid import UUID

from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.sessions.store import SessionStore
from oauth_bridge.maintenance import backchannel
from oauth_bridge.models import ApplicationSession
from oauth_bridge.storage import application_sessions
from tests.factories import PASSWORD, CodeFactory, Registered


def sign_in(person: User) -> SessionStore:
    """The browser session of a person who has just signed in."""
    client = Client()
    client.post("/accounts/sign-in", {"login": person.email, "password": PASSWORD})
    return SessionStore(client.session.session_key)


def begin(session: SessionStore, person: User, application: Registered) -> UUID:
    sid = application_sessions.begin(
        session["sign_in"],
        code_id=CodeFactory(application=application, user=person).row.pk,
        person_id=person.pk,
        application_id=application.row.pk,
        person_version=person.credentials_version,
    )
    return UUID(sid)


def tell() -> None:
    """All that a worker's thread does while something is due."""
    backchannel._next_look = 0.0
    while backchannel.tell_next():
        pass


def make_due() -> None:
    ApplicationSession.objects.filter(due_at__isnull=False).update(due_at=timezone.now())


def begin_and_end(application: Registered, person: User) -> UUID:
    session = sign_in(person)
    sid = begin(session, person, application)
    session.delete()
    return sid
