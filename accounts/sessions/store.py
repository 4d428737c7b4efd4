"""Store browser sessions in the database. A copy of the database is not enough to use or read a session (D15).

The browser's key is the value of the cookie. The key column stores a digest of this key. The payload may contain reset
keys, confirmation codes and pending requests, so it is encrypted with a key derived from the browser's key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.messages.storage.base import Message
from django.contrib.messages.storage.session import SessionStorage
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.db import InternalError, OperationalError
from django.db.models import Case, F, Q, When
from django.http import HttpRequest
from django.utils import timezone

from accounts.models import Session, User
from config.infrastructure import sealing
from config.infrastructure.sql import Rows, fetch_one

# The session's entry with the description of the browser. A column of the row stores the same value.
BROWSER_KEY = "browser"
# The session's entry that is true if the browser was known at sign-in. A column of the row stores the same value.
WAS_KNOWN_KEY = "was_known"
# The session's entry with the random ID of the sign-in. A column of the row stores the same value.
SIGN_IN_KEY = "sign_in"
# A person keeps at most KEPT sessions, including the new session. One sign-in deletes at most _DELETED_AT_ONCE
# sessions.
KEPT = 100
_DELETED_AT_ONCE = 1000
# A session keeps at most this number of unread messages.
_UNREAD = 5

_USE_IS_STORED_EACH = timedelta(hours=1)
_SESSIONS = Rows(Session, "session_data", "created_at", "last_used_at")
_PEOPLE = Rows(
    User, without=("created_at", "language", "last_login", "password_changed_at", "profile_changed_at", "unlocks")
)
# Hand-written SQL: the ORM takes several times longer to build this statement than the database takes to run it.
_SESSION_AND_PERSON = (
    f"SELECT {_SESSIONS.columns('s')}, {_PEOPLE.columns('u')}"  # noqa: S608 - names of tables and columns only
    f" FROM {Session._meta.db_table} s LEFT JOIN {User._meta.db_table} u ON u.id = s.user_id"
    " WHERE s.session_key = %(key)s AND s.expire_date > %(now)s"
)


def digest(session_key: str) -> str:
    """Return the digest of the browser's key, as the key column stores it."""
    return hashlib.sha256(session_key.encode("utf-8", "surrogatepass")).hexdigest()


def describe(session: SessionBase, *, browser: str, was_known: bool) -> None:
    """Set the entries of a new sign-in. The row also stores these values in columns."""
    session[WAS_KNOWN_KEY] = was_known
    session[BROWSER_KEY] = browser
    session.setdefault(SIGN_IN_KEY, uuid4().hex)


def sign_in_of(request: HttpRequest) -> str:
    """Return the random ID of the sign-in, or an empty string if an earlier release began the session."""
    return str(request.session.get(SIGN_IN_KEY, ""))


def keep_newest(person: User, session_key: str | None) -> None:
    """Delete the sessions that the person has in excess of KEPT. The session with the key `session_key` always stays.

    Sessions of known browsers, and sessions that were used more than an hour after they began, are deleted last. So an
    attacker who signs in repeatedly ends only the attacker's own sessions.
    """
    now = timezone.now()
    is_long_used = Q(last_used_at__gt=F("created_at") + timedelta(hours=1))
    rank = Case(When(expire_date__lte=now, then=0), When(Q(was_known=True) | is_long_used, then=2), default=1)
    others = Session.objects.filter(user_id=person.pk).exclude(session_key=digest(session_key or ""))
    surplus = others.order_by(rank.desc(), "-created_at")[KEPT - 1 : KEPT - 1 + _DELETED_AT_ONCE]
    Session.objects.filter(pk__in=list(surplus.values_list("pk", flat=True))).delete()


class SessionStore(DatabaseSessionStore):
    """Django's database store with digests of keys and encrypted payloads. One statement reads session and person."""

    _person: User | None = None
    _created: tuple[str | None, datetime] | None = None  # the session key, and the creation time of the row
    _last_used: datetime | None = None

    # The asynchronous methods of Django's database store would use the key instead of its digest. So this class uses
    # the methods of SessionBase, which call the synchronous methods below in a thread.
    aexists, aload, asave = SessionBase.aexists, SessionBase.aload, SessionBase.asave
    acreate, adelete = SessionBase.acreate, SessionBase.adelete

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    @property
    def person(self) -> User | None:
        """The signed-in person, or None. The statement that loads the session also reads the person."""
        person_id = self.get(SESSION_KEY)
        return self._person if self._person and str(self._person.pk) == person_id else None

    @property
    def is_of_deactivated_account(self) -> bool:
        """True if the account of the session's person has been deactivated."""
        return self.person is not None and not self.person.is_active

    def get_expiry_age(self, **kwargs: Any) -> int:
        """Return the seconds until the session expires.

        Without a signed-in person, the session expires ANONYMOUS_SESSION_AGE seconds after its creation, to limit the
        number of rows. Later requests do not extend it.
        """
        age: int = super().get_expiry_age(**kwargs)
        if SESSION_KEY in self:
            return age
        key, created_at = self._created or (None, timezone.now())
        passed = int((timezone.now() - created_at).total_seconds()) if key and key == self.session_key else 0
        return min(age, max(settings.ANONYMOUS_SESSION_AGE - passed, 0))

    def get_expiry_date(self, **kwargs: Any) -> datetime:
        return timezone.now() + timedelta(seconds=self.get_expiry_age(**kwargs))

    def set_expiry(self, value: datetime | timedelta | int | None) -> None:
        """Ignore the default age.

        allauth sets the default age after each valid password form. That would store an otherwise empty session.
        """
        if value != settings.SESSION_COOKIE_AGE:
            super().set_expiry(value)

    def load(self) -> dict[str, Any]:
        row = fetch_one(_SESSION_AND_PERSON, key=digest(self.session_key or ""), now=timezone.now())
        if row is None:
            self._session_key = None  # the next session must get a new key, not a key that the client chose
            return {}
        session = _SESSIONS.instance(row[: len(_SESSIONS)])
        person = _PEOPLE.instance(row[len(_SESSIONS) :])
        self._created = (self.session_key, session.created_at)
        self._last_used = session.last_used_at
        self._person = person if person.pk else None
        return self.decode(session.session_data)

    def exists(self, session_key: str) -> bool:
        return super().exists(digest(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row = cast(Session, super().create_model_instance(data))
        if self._created is None or self._created[0] != row.session_key:
            self._created = (row.session_key, timezone.now())
        row.created_at = self._created[1]
        row.session_key = digest(row.session_key)
        row.user_id = data.get(SESSION_KEY)
        row.browser = data.get(BROWSER_KEY, "")
        row.was_known = data.get(WAS_KNOWN_KEY, False)
        row.sign_in = UUID(data[SIGN_IN_KEY]) if SIGN_IN_KEY in data else None
        row.last_used_at = timezone.now()
        return row

    def save(self, must_create: bool = False) -> None:
        """Raise UpdateError only if the session has ended. Django also raises it if the database is unavailable."""
        try:
            super().save(must_create)
        except UpdateError as error:
            if isinstance(error.__context__, OperationalError | InternalError):
                raise error.__context__ from None
            raise

    def store_use(self) -> None:
        """Store the time of use, at most once an hour, for the page that lists the browsers."""
        now = timezone.now()
        if self._last_used is None or now - self._last_used >= _USE_IS_STORED_EACH:
            Session.objects.filter(session_key=digest(self.session_key or "")).update(last_used_at=now)
            self._last_used = now

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            Session.objects.filter(session_key=digest(key)).delete()

    def encode(self, session_dict: dict[str, Any]) -> str:
        return base64.b64encode(sealing.encrypt(self._payload_key(), self.serializer().dumps(session_dict))).decode()

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        """Return the payload, or an empty dictionary if the browser's key does not decrypt it."""
        try:
            payload = sealing.decrypt(self._payload_key(), base64.b64decode(session_data))
            return self.serializer().loads(payload) if payload else {}
        except ValueError:
            return {}

    def _payload_key(self) -> bytes:
        """Derive the encryption key from the browser's key. The database does not store the browser's key. P5."""
        return hmac.digest(b"accounts.sessions payload", (self.session_key or "").encode(), "sha256")


class MessageStorage(SessionStorage):
    """Django's storage of messages in the session, for the newest _UNREAD messages. Equal messages are kept once.

    If an equal message waits already, the session does not change and is not saved.
    """

    def add(self, level: int, message: str, extra_tags: str | None = "") -> None:
        if Message(level, str(message)) not in self:
            super().add(level, message, extra_tags)

    def serialize_messages(self, messages: Sequence[Message]) -> str:
        return super().serialize_messages(messages[-_UNREAD:])
