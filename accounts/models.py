"""The models of people, sessions, failed factors, outgoing e-mails, pictures and the audit trail."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from accounts.email_addresses import EMAIL_MAX_LENGTH, looked_up_email, normalise_email
from accounts.passwords import hashing

NICKNAME_MAX_LENGTH = 60


class EmailField(models.EmailField):  # type: ignore[type-arg]
    def clean(self, value: Any, model_instance: models.Model | None) -> str:
        return str(super().clean(normalise_email(value) if value else value, model_instance))

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.EmailField", args, kwargs


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=looked_up_email(username or ""))

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Store and return an account. By default it has no usable password. Raises ValidationError or HashingBusy."""
        user = self.model(email=normalise_email(email), **fields)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        fields = {"is_staff": True, "is_superuser": True, "email_verified_at": timezone.now(), **fields}
        return self.create_user(email, password, **fields)


class User(AbstractBaseUser, PermissionsMixin):
    """A person. The primary key is the `sub` claim. Specification 2.4."""

    id = models.UUIDField(_("user ID"), primary_key=True, default=uuid.uuid4, editable=False)
    email: models.EmailField[str, str] = EmailField(_("e-mail address"), max_length=EMAIL_MAX_LENGTH)
    email_verified_at = models.DateTimeField(_("address confirmed at"), null=True, blank=True)
    nickname = models.CharField(_("nickname"), max_length=NICKNAME_MAX_LENGTH, blank=True)
    # Of e-mails to the person: a code of settings.LANGUAGES; empty if unknown.
    language = models.CharField(_("language"), max_length=20, blank=True, default="", db_default="")
    avatar = models.CharField(_("picture"), max_length=100, blank=True, editable=False)
    is_active = models.BooleanField(_("active"), default=True)
    is_staff = models.BooleanField(_("administrator"), default=False)
    invited_at = models.DateTimeField(null=True, editable=False)  # the last invitation, until it is accepted
    created_at = models.DateTimeField(_("created at"), default=timezone.now, editable=False)
    password_changed_at = models.DateTimeField(null=True, editable=False)  # None: never changed
    # The last change of nickname, picture or address.
    profile_changed_at = models.DateTimeField(null=True, default=timezone.now, editable=False)
    # A credential stores the version at its issue, and is invalid after `sessions.credential_changes` has incremented
    # it. With a timestamp, a credential that another request issues at the same moment would stay valid.
    credentials_version = models.IntegerField(default=0, db_default=0, editable=False)
    # The keys of the counts of failed sign-ins contain the number, so each unlocking begins a new count.
    unlocks = models.IntegerField(default=0, db_default=0, editable=False)

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["nickname"]

    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")
        permissions: ClassVar[list[tuple[str, Any]]] = [
            ("change_email_address", gettext_noop("Can correct e-mail addresses of people"))
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["email"],
                name="accounts_user_email",
                violation_error_message=_("Somebody already uses this address."),
            ),
            models.CheckConstraint(condition=models.Q(email=Lower("email")), name="accounts_user_email_lower_case"),
        ]

    def __str__(self) -> str:
        return self.email

    @property
    def display_name(self) -> str:
        """The nickname, or a neutral name if the nickname is empty; never the e-mail address."""
        return self.nickname.strip() or f"Member {self.id.hex[:6]}"

    @property
    def invitation_ends_at(self) -> datetime | None:
        return self.invited_at and self.invited_at + timedelta(seconds=settings.INVITATION_AGE)

    def change_profile(self, **values: Any) -> None:
        """Store `values`, whose keys are columns, and the time of the change: the claim `updated_at`."""
        for name, value in values.items():
            setattr(self, name, value)
        self.profile_changed_at = timezone.now()
        self.save(update_fields=[*values, "profile_changed_at"])

    def check_password(self, raw_password: str) -> bool:
        """Return whether the password is right. Upgrade an old hash without ending sessions. Raises HashingBusy."""
        stored = self.password

        def upgrade(password: str) -> None:
            with suppress(hashing.HashingBusy):  # the next sign-in upgrades the hash
                self.password = hashing.upgraded(password, stored)
                User.objects.filter(pk=self.pk, password=stored).update(password=self.password)

        return check_password(raw_password, stored, upgrade)

    def get_session_auth_hash(self) -> str:
        return self._session_auth_hash(settings.SECRET_KEY)

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        return map(self._session_auth_hash, settings.SECRET_KEY_FALLBACKS)

    def _session_auth_hash(self, secret: str | bytes) -> str:
        state = f"{hashing.salt_of(self.password)} {self.credentials_version}"
        return salted_hmac("accounts.models.session", state, secret=secret, algorithm="sha256").hexdigest()


class Session(AbstractBaseSession):
    """A browser's session. Only the key in the cookie decrypts `session_data`, so `get_decoded` does not work."""

    session_key = models.CharField(_("digest of the session key"), max_length=64, primary_key=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="sessions")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # A result of `accounts.sessions.user_agents.describe`.
    browser = models.CharField(max_length=60, blank=True, default="", db_default="", editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)  # updated at most once an hour
    # Whether the browser was known when the session began (accounts.sessions.known_browsers).
    was_known = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta(AbstractBaseSession.Meta):  # type: ignore[name-defined]
        verbose_name = _("browser session")
        verbose_name_plural = _("browser sessions")

    @staticmethod
    def unexpired() -> models.QuerySet[Session]:
        return Session.objects.filter(expire_date__gt=timezone.now()).defer("session_data")


class FailedFactor(models.Model):
    """A wrong code or passkey answer from a person who is signed in or has sent the right password."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    source = models.CharField(max_length=32)  # a digest of the known browser's random name, or of the network address
    is_known = models.BooleanField()  # whether the browser was known
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()


class OutgoingMail(models.Model):
    """An e-mail to send. After sending, a row with `once` stays until it expires, but `sealed` is empty."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=60)
    requester = models.BinaryField(max_length=32, null=True)  # a digest that identifies the requester
    sealed = models.BinaryField()  # the encrypted e-mail
    holds_credential = models.BooleanField(default=False)
    once = models.BinaryField(max_length=32, null=True, unique=True)  # a digest of an event that causes one e-mail only
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    turn = models.PositiveIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(db_index=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()


class StoredPicture(models.Model):
    """A picture of a person or the logo of an application."""

    name = models.CharField(max_length=100, primary_key=True)
    content = models.BinaryField()

    class Meta:
        default_permissions = ()

    @classmethod
    def read(cls, name: str) -> bytes | None:
        content = cls.objects.filter(name=name).values_list("content", flat=True).first()
        return None if content is None else bytes(content)


class AuditEntry(models.Model):
    """A change by an administrator or operator. Without foreign keys, the row outlives the actor and the object."""

    at = models.DateTimeField(default=timezone.now, editable=False)
    actor = models.UUIDField(null=True, editable=False)
    actor_name = models.CharField(max_length=120, editable=False)
    address = models.CharField(max_length=50, blank=True, editable=False)
    action = models.CharField(max_length=40, editable=False)
    kind = models.CharField(max_length=20, editable=False)  # application, person, group or signing key
    key = models.CharField(max_length=255, editable=False)  # the client_id, `sub`, primary key or key ID
    name = models.CharField(max_length=120, editable=False)
    changes = models.JSONField(default=dict, editable=False)  # of each field, the values before and after
    reference = models.CharField(max_length=8, blank=True, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar[list[tuple[str, Any]]] = [("view_auditentry", gettext_noop("Can view the audit trail"))]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["kind", "key", "-id"], name="accounts_audit_key")]
