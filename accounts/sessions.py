"""Browser sessions in the database. A copy of the database is not enough to use or read one (D15).

The key column stores a digest of the browser's key, and the payload is encrypted with a key derived from the browser's
key: it may contain reset keys, confirmation codes and pending requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from datetime import datetime, timedelta
from typing import Any, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.utils import timezone

from accounts.models import Session, User
from config.infrastructure.sql import Rows, fetch_one

# Session key of the browser's description, which is stored in a column as well.
BROWSER_KEY = "browser"

_NONCE_BYTES = 12
_USE_IS_STORED_EACH = timedelta(hours=1)
_SESSIONS = Rows(Session, "session_data", "created_at", "last_used_at")
_PEOPLE = Rows(User, without=("created_at", "language", "last_login", "password_changed_at"))
# Hand-written: the ORM takes several times as long to build this statement as the database takes to run it.
_SESSION_AND_PERSON = (
    f"SELECT {_SESSIONS.columns('s')}, {_PEOPLE.columns('u')}"  # noqa: S608 - names of tables and columns only
    f" FROM {Session._meta.db_table} s LEFT JOIN {User._meta.db_table} u ON u.id = s.user_id"
    " WHERE s.session_key = %s AND s.expire_date > %s"
)


def digest(session_key: str) -> str:
    """The value of the key column for the browser's key."""
    return hashlib.sha256(session_key.encode("utf-8", "surrogatepass")).hexdigest()


class SessionStore(DatabaseSessionStore):
    """Django's database store with digests for keys and encrypted payloads; one statement reads session and person."""

    _person: User | None = None
    _created: tuple[str | None, datetime] | None = None  # a key, and when its row was created
    _last_used: datetime | None = None

    # The asynchronous methods of Django's database store use the key itself instead of its digest. Those of SessionBase
    # call the synchronous methods below in a thread.
    aexists, aload, asave = SessionBase.aexists, SessionBase.aload, SessionBase.asave
    acreate, adelete = SessionBase.acreate, SessionBase.adelete

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    @property
    def person(self) -> User | None:
        """The person who is signed in, read in the statement that loads the session. None when nobody is."""
        person_id = self.get(SESSION_KEY)
        return self._person if self._person and str(self._person.pk) == person_id else None

    @property
    def is_of_deactivated_account(self) -> bool:
        """Whether somebody was signed in here whose account was deactivated meanwhile."""
        return self.person is not None and not self.person.is_active

    def load(self) -> dict[str, Any]:
        row = fetch_one(_SESSION_AND_PERSON, digest(self.session_key or ""), timezone.now())
        if row is None:
            self._session_key = None  # so that the next session gets a new key, not one that the client chose
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
        row.last_used_at = timezone.now()
        return row

    def store_use(self) -> None:
        """Store that the session is used now: one statement an hour, for the page of browsers."""
        now = timezone.now()
        if self._last_used is None or now - self._last_used >= _USE_IS_STORED_EACH:
            Session.objects.filter(session_key=digest(self.session_key or "")).update(last_used_at=now)
            self._last_used = now

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            Session.objects.filter(session_key=digest(key)).delete()

    def encode(self, session_dict: dict[str, Any]) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher().encrypt(nonce, self.serializer().dumps(session_dict), None)
        return base64.b64encode(nonce + sealed).decode()

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        """The payload; empty when the browser's key does not decrypt it."""
        try:
            sealed = base64.b64decode(session_data)
            payload = self._cipher().decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
            return self.serializer().loads(payload)  # type: ignore[no-any-return]
        except (InvalidTag, ValueError):
            return {}

    def _cipher(self) -> AESGCM:
        """The cipher of the payload. Its key is derived from the browser's key, of which the database has a digest."""
        return AESGCM(hmac.digest(b"accounts.sessions payload", (self.session_key or "").encode(), "sha256"))
