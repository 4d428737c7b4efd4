"""Store sessions encrypted, under a digest of the cookie, so that a copy of the database is not enough to use them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, middleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages.storage.base import Message
from django.contrib.messages.storage.session import SessionStorage
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.db import InternalError, OperationalError
from django.db.models import Case, F, Q, When
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts.models import Session, User
from config.infrastructure import sealing
from config.infrastructure.sql import Rows, fetch_one

# Entries of the session that columns of the row also store.
BROWSER_KEY, WAS_KNOWN_KEY = "browser", "was_known"
KEPT = 100  # sessions of a person, including the new session
_UNREAD = 5  # a session keeps at most this number of unread messages

_USE_IS_STORED_EACH = timedelta(hours=1)
_SESSIONS = Rows(Session, "session_data", "created_at", "last_used_at")
_DATES = ("created_at", "invited_at", "last_login", "password_changed_at", "profile_changed_at")
_PEOPLE = Rows(User, without=(*_DATES, "language", "unlocks"))
# Hand-written SQL: the ORM takes several times longer to build this statement than the database takes to run it.
_SESSION_AND_PERSON = (
    f"SELECT {_SESSIONS.columns('s')}, {_PEOPLE.columns('u')}"  # noqa: S608 - names of tables and columns only
    f" FROM {Session._meta.db_table} s LEFT JOIN {User._meta.db_table} u ON u.id = s.user_id"
    " WHERE s.session_key = %(key)s AND s.expire_date > %(now)s"
)


def digest(session_key: str | None) -> str:
    return hashlib.sha256((session_key or "").encode("utf-8", "surrogatepass")).hexdigest()


def keep_newest(person: User, session_key: str | None) -> None:
    """Keep up to KEPT sessions, including `session_key`. Sessions in known browsers or in long use are deleted last."""
    # An attacker who signs in repeatedly must not end the sessions of known browsers or sessions in long use.
    is_long_used = Q(last_used_at__gt=F("created_at") + timedelta(hours=1))
    is_expired = When(expire_date__lte=timezone.now(), then=0)
    rank = Case(is_expired, When(Q(was_known=True) | is_long_used, then=2), default=1)
    others = Session.objects.filter(user_id=person.pk).exclude(session_key=digest(session_key))
    surplus = others.order_by(rank.desc(), "-created_at")[KEPT - 1 :]
    Session.objects.filter(pk__in=list(surplus.values_list("pk", flat=True))).delete()


class SessionStore(DatabaseSessionStore):
    """Django's database store with digests of keys and encrypted payloads. One query reads session and person."""

    _row: Session | None = None  # the row that was loaded, and its person
    _person: User | None = None

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    @property
    def person(self) -> User | None:
        person_id = self.get(SESSION_KEY)
        return self._person if self._person and str(self._person.pk) == person_id else None

    def get_session_cookie_age(self) -> int:
        if SESSION_KEY in self:
            return settings.SESSION_COOKIE_AGE
        # Without a person, later requests do not extend the session.
        passed = timezone.now() - self._row.created_at if self._row else timedelta(0)
        return max(settings.ANONYMOUS_SESSION_AGE - int(passed.total_seconds()), 0)

    def set_expiry(self, value: Any) -> None:
        """Do nothing. Otherwise, the expiry that allauth sets would create a session that contains nothing else."""

    def load(self) -> dict[str, Any]:
        row = fetch_one(_SESSION_AND_PERSON, key=digest(self.session_key), now=timezone.now())
        if row is None:
            self._session_key = None  # the next session must get a new key, not a key that the client chose
            return {}
        self._row = _SESSIONS.instance(row[: len(_SESSIONS)])
        person = _PEOPLE.instance(row[len(_SESSIONS) :])
        self._person = person if person.pk else None
        return self.decode(self._row.session_data)

    def create(self) -> None:
        self._row = None  # a session with a new key is as old as this key
        super().create()

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row = cast(Session, super().create_model_instance(data))
        row.session_key = digest(row.session_key)
        row.last_used_at = timezone.now()
        row.created_at = self._row.created_at if self._row else row.last_used_at
        row.user_id = data.get(SESSION_KEY)
        row.browser = data.get(BROWSER_KEY, "")
        row.was_known = data.get(WAS_KNOWN_KEY, False)
        return row

    def save(self, must_create: bool = False) -> None:
        try:
            super().save(must_create)
        except UpdateError as error:  # Django's error for a session that has ended and for a database that fails
            if isinstance(error.__context__, OperationalError | InternalError):
                raise error.__context__ from None
            raise

    def store_use(self) -> None:
        now = timezone.now()
        if self._row and (not self._row.last_used_at or now - self._row.last_used_at >= _USE_IS_STORED_EACH):
            Session.objects.filter(session_key=digest(self.session_key)).update(last_used_at=now)
            self._row.last_used_at = now

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            Session.objects.filter(session_key=digest(key)).delete()

    def encode(self, session_dict: dict[str, Any]) -> str:
        return base64.b64encode(sealing.encrypt(self._payload_key(), self.serializer().dumps(session_dict))).decode()

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        try:
            payload = sealing.decrypt(self._payload_key(), base64.b64decode(session_data))
            return self.serializer().loads(payload) if payload else {}
        except ValueError:  # the browser's key does not decrypt it
            return {}

    def _payload_key(self) -> bytes:
        return hmac.digest(b"accounts.sessions payload", (self.session_key or "").encode(), "sha256")


class MessageStorage(SessionStorage):
    """Keeps the newest _UNREAD messages in the session. A message equal to an unread one is not added."""

    def add(self, level: int, message: str, extra_tags: str | None = "") -> None:
        if Message(level, str(message)) not in self:
            super().add(level, message, extra_tags)

    def serialize_messages(self, messages: Sequence[Message]) -> str:
        return super().serialize_messages(messages[-_UNREAD:])


class AuthenticationMiddleware(middleware.AuthenticationMiddleware):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.user = cast(User, SimpleLazyObject(lambda: _signed_in_person(request) or AnonymousUser()))
        return cast(HttpResponseBase, self.get_response(request))


def _signed_in_person(request: HttpRequest) -> User | None:
    """Return the active person of a valid session, or None. A new password or `credentials_version` ends sessions."""
    session = cast(SessionStore, request.session)
    person = session.person
    if person is None or not person.is_active:
        return None
    stored, present = session.get(HASH_SESSION_KEY, ""), person.get_session_auth_hash()
    if not any(constant_time_compare(stored, each) for each in (present, *person.get_session_auth_fallback_hash())):
        session.flush()
        return None
    if stored != present:
        # SECRET_KEY has changed. Django would also replace the session's key, but open pages are bound to the key.
        session[HASH_SESSION_KEY] = present
    session.store_use()
    return person
