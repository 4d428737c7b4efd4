"""Rows for tests. Factories of credentials return the raw value with the row, which contains only a digest."""

from __future__ import annotations

import functools
import hashlib
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import factory
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import models
from django.utils import timezone

from accounts.models import User
from oauth_bridge.models import AccessToken, Application, ApplicationSecret, AuthorizationCode, Consent

PASSWORD = "correct horse battery staple"
LIFETIMES = {AuthorizationCode: timedelta(seconds=600), AccessToken: timedelta(seconds=3600)}


@functools.cache
def hashed_by(_hashers: tuple[str, ...]) -> str:
    return make_password(PASSWORD)


def hashed_password() -> str:
    """PASSWORD, hashed by the hasher in the settings of the test."""
    return hashed_by(tuple(settings.PASSWORD_HASHERS))


@dataclass(frozen=True)
class Registered:
    """An application with its raw secret."""

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
    password = factory.LazyFunction(hashed_password)
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
        ApplicationSecret.objects.create(application=row, digest=digest_of(secret))
        return Registered(row, secret)


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


def rewind(row: models.Model, seconds: float) -> None:
    """Makes the row so many seconds older: subtracts them from all its times."""
    times = [field.name for field in row._meta.concrete_fields if isinstance(field, models.DateTimeField)]
    row.refresh_from_db()
    moved = {name: getattr(row, name) - timedelta(seconds=seconds) for name in times if getattr(row, name) is not None}
    type(row)._default_manager.filter(pk=row.pk).update(**moved)
    row.refresh_from_db()
