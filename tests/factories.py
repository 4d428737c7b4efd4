"""Rows for tests, pictures as people upload them, and the database as text.

Factories of credentials return the raw value with the row, which contains only a digest.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import factory
from django.contrib.auth.hashers import make_password
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, models
from django.utils import timezone
from PIL import Image

from accounts.models import User
from oauth_bridge.applications import registry
from oauth_bridge.credentials import codes, secret_rotation
from oauth_bridge.credentials.random_values import OPENID_MARK
from oauth_bridge.models import AccessToken, Application, ApplicationSecret, AuthorizationCode, Consent

PASSWORD = "correct horse battery staple"
LIFETIMES = {AuthorizationCode: timedelta(seconds=600), AccessToken: timedelta(seconds=3600)}


@dataclass(frozen=True)
class Registered:
    row: Application
    secret: str = field(repr=False)

    @property
    def client_id(self) -> str:
        return str(self.row.client_id)

    @property
    def client_secret(self) -> str:
        return self.secret

    @property
    def redirect_uri(self) -> str:
        return self.row.callback_addresses[0]


@dataclass(frozen=True)
class Issued:
    """A code or a token: the raw value and the row."""

    raw: str = field(repr=False)
    row: Any


class PersonFactory(factory.django.DjangoModelFactory[User]):
    """A person with a verified address and PASSWORD."""

    class Meta:
        model = User

    email = factory.LazyFunction(lambda: f"alice-{uuid.uuid4().hex[:12]}@example.com")
    nickname = "Alice Ægir"
    password = factory.LazyFunction(lambda: make_password(PASSWORD))
    email_verified_at = factory.LazyFunction(timezone.now)


class ApplicationFactory(factory.django.DjangoModelFactory[Registered]):
    class Meta:
        model = Application

    name = factory.LazyFunction(lambda: f"Photo Printer {uuid.uuid4().hex[:8]}")
    homepage = "https://client.example/"
    redirect_uris = "https://client.example/callback"

    @classmethod
    def _create(cls, model_class: type[Application], *args: Any, **fields: Any) -> Any:
        row = super()._create(model_class, *args, **fields)
        secret = secrets.token_urlsafe(32)
        if row.is_public:
            return Registered(row, "")
        ApplicationSecret.objects.create(application=row, digest=digest_of(secret), number=1)
        Application.objects.filter(pk=row.pk).update(last_secret_number=1)
        return Registered(row, secret)


def registered(**fields: Any) -> tuple[Application, str]:
    """An application and its secret, as `application create` stores them."""
    row = Application(**{"name": "Reading List", "redirect_uris": "https://reading.example/callback", **fields})
    registry.add(row, ())
    return row, secret_rotation.rotate(row).secret


class _CredentialFactory(factory.django.DjangoModelFactory[Issued]):
    """Accepts `application` as a row or as Registered."""

    class Meta:
        abstract = True

    user = factory.SubFactory(PersonFactory)
    scope = "profile"

    @classmethod
    def _create(cls, model_class: type[models.Model], *args: Any, **fields: Any) -> Any:
        raw = fields.pop("raw", None) or secrets.token_urlsafe(32)
        application = fields.pop("application", None) or ApplicationFactory()
        issued_at: datetime = fields.pop("issued_at", None) or timezone.now()
        row = super()._create(
            model_class,
            *args,
            application=getattr(application, "row", application),
            digest=digest_of(raw),
            issued_at=issued_at,
            expires_at=issued_at + LIFETIMES[model_class],
            **fields,
        )
        return Issued(raw, row)


class CodeFactory(_CredentialFactory):
    class Meta:
        model = AuthorizationCode

    attempt = factory.LazyFunction(uuid.uuid4)
    redirect_uri = "https://client.example/callback"
    code_challenge = ""

    @classmethod
    def _create(cls, model_class: type[models.Model], *args: Any, **fields: Any) -> Any:
        if fields.get("openid"):
            fields.setdefault("raw", f"{OPENID_MARK}{secrets.token_urlsafe(32)}")
        return super()._create(model_class, *args, **fields)


class TokenFactory(_CredentialFactory):
    class Meta:
        model = AccessToken


class ConsentFactory(factory.django.DjangoModelFactory[Consent]):
    class Meta:
        model = Consent

    given_at = factory.LazyFunction(timezone.now)
    expires_at = factory.LazyAttribute(lambda consent: consent.given_at + timedelta(days=180))


def digest_of(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()


def issue(person: User, application: Application, attempt: uuid.UUID | None = None, at: datetime | None = None) -> str:
    redirect_uri = application.callback_addresses[0]
    attempt = attempt or uuid.uuid4()
    return codes.issue(person, application, attempt=attempt, redirect_uri=redirect_uri, scope="profile", received_at=at)


def rewind(row: models.Model, seconds: float) -> None:
    """Subtract `seconds` from all times of the row."""
    times = [field.name for field in row._meta.concrete_fields if isinstance(field, models.DateTimeField)]
    row.refresh_from_db()
    moved = {name: getattr(row, name) - timedelta(seconds=seconds) for name in times if getattr(row, name) is not None}
    type(row)._default_manager.filter(pk=row.pk).update(**moved)
    row.refresh_from_db()


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30), **options: Any) -> bytes:
    return encoded(Image.new("RGB", size, "red"), kind, **options)


def striped() -> Image.Image:
    """Three squares: red, green, blue, from left to right."""
    image = Image.new("RGB", (90, 30), "green")
    image.paste("red", (0, 0, 30, 30))
    image.paste("blue", (60, 0, 90, 30))
    return image


def upload(content: bytes, name: str = "me.png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def opened(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    return image


def database_text() -> str:
    """All values of all tables; binary ones as hexadecimal and as Latin-1."""
    parts: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for value in row:
                    is_binary = isinstance(value, bytes | memoryview)
                    raw = bytes(value) if is_binary else str(value).encode()
                    parts += [raw.decode("latin-1"), raw.hex() if is_binary else ""]
    return "\n".join(parts)
