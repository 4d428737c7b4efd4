"""Browser sessions in the database, of which a copy of the database opens none (D15).

A row is filed under the digest of the key that the browser keeps, and its payload is encrypted under that same key:
reset keys, confirmation codes and pending requests pass through a session and must not be readable in a dump either.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from asgiref.sync import sync_to_async
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.apps import apps
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.utils import timezone

from config.infrastructure.sql import Rows, fetch_one

if TYPE_CHECKING:
    from accounts.models import Session, User

_NONCE_BYTES = 12


def digest(session_key: str) -> str:
    """What the database files a session under."""
    return hashlib.sha256(session_key.encode("utf-8", "surrogatepass")).hexdigest()


class Beside(NamedTuple):
    """What else the statement that loads a session can read: columns of tables joined to it; `u` is the person."""

    columns: str
    joins: str


@functools.cache
def _session_and_person(beside: Beside | None = None) -> tuple[str, Rows[User]]:
    """One statement for both, written by hand: building it costs several times what running it does.

    It always finds a row. Where there is no session, or nobody is signed in, its columns are empty.
    """
    person, session = apps.get_model("accounts", "User"), apps.get_model("accounts", "Session")
    people = Rows(person, without=("created_at", "last_login"))
    more_columns, more_joins = (f", {beside.columns}", beside.joins) if beside else ("", "")
    return (
        f"SELECT {people.columns('u')}, s.session_data{more_columns}"  # noqa: S608 - names of tables and columns only
        f" FROM (SELECT 1) AS always"
        f" LEFT JOIN {session._meta.db_table} s ON s.session_key = %s AND s.expire_date > %s"
        f" LEFT JOIN {person._meta.db_table} u ON u.id = s.user_id {more_joins}",
        people,
    )


class SessionStore(DatabaseSessionStore):
    """`person` is who was signed in when the session was loaded; the same statement reads both."""

    person: User | None = None
    _begun: tuple[str, datetime] | None = None  # a key, and when its row was created

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return cast("type[Session]", apps.get_model("accounts", "Session"))

    def load(self) -> dict[str, Any]:
        return self._opened(*self._read())

    def load_with(self, beside: Beside, *values: object) -> Sequence[Any]:
        """The columns of `beside`, of which `values` are the parameters; loads the session if nobody has before."""
        row, people = self._read(beside, *values)
        if not hasattr(self, "_session_cache"):
            self._session_cache = self._opened(row, people)
        return row[len(people) + 1 :]

    def _read(self, beside: Beside | None = None, *values: object) -> tuple[Sequence[Any], Rows[User]]:
        statement, people = _session_and_person(beside)
        return fetch_one(statement, digest(self.session_key or ""), timezone.now(), *values), people

    def _opened(self, row: Sequence[Any], people: Rows[User]) -> dict[str, Any]:
        sealed = row[len(people)]
        if sealed is None:
            self._session_key = None
            return {}
        person = people.instance(row[: len(people)])
        self.person = person if person.pk else None
        return self.decode(sealed)

    async def aload(self) -> dict[str, Any]:
        return await sync_to_async(self.load)()

    def exists(self, session_key: str) -> bool:
        return super().exists(digest(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(digest(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        key: str = self._get_or_create_session_key()  # type: ignore[attr-defined]
        return self._row(key, data, self.get_expiry_date())

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        key: str = await self._aget_or_create_session_key()  # type: ignore[attr-defined]
        return await sync_to_async(self._row)(key, data, await self.aget_expiry_date())

    def _row(self, key: str, data: dict[str, Any], expires_at: datetime) -> Session:
        if self._begun is None or self._begun[0] != key:
            rows = self.get_model_class().objects.filter(session_key=digest(key))
            self._begun = (key, rows.values_list("created_at", flat=True).first() or timezone.now())
        return self.get_model_class()(
            session_key=digest(key),
            session_data=self.encode(data),
            expire_date=expires_at,
            user_id=data.get(SESSION_KEY),
            created_at=self._begun[1],
        )

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            self.get_model_class().objects.filter(session_key=digest(key)).delete()

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)

    def flush(self) -> None:
        super().flush()
        self.person = None

    async def aflush(self) -> None:
        await super().aflush()
        self.person = None

    def encode(self, session_dict: dict[str, Any]) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher().encrypt(nonce, self.serializer().dumps(session_dict), None)
        return base64.b64encode(nonce + sealed).decode()

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        """The payload; empty for a row that this browser's key does not open."""
        try:
            sealed = base64.b64decode(session_data)
            payload = self._cipher().decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
            return self.serializer().loads(payload)  # type: ignore[no-any-return]
        except (InvalidTag, ValueError):
            return {}

    def _cipher(self) -> AESGCM:
        """Keyed by the browser's key, which the database does not hold. Its digest, the row's key, leads nowhere."""
        return AESGCM(hmac.digest(b"accounts.sessions payload", (self.session_key or "").encode(), "sha256"))
