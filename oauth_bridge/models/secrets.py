"""The tables of client secrets and of the keys that sign ID tokens (OpenID Connect Core 1.0 §10.1)."""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import ClassVar

from django.db import models
from django.utils import timezone

from accounts.models import NICKNAME_MAX_LENGTH
from config.infrastructure.texts import refuse_control_characters

NAME_MAX_LENGTH = 80
PREFIX_LENGTH = 4  # the other 39 of the 43 characters have 232 random bits


class State(StrEnum):
    WORKS = "works"  # valid without an end
    ENDING = "ending"  # valid until `expires_at`
    EXPIRED = "expired"  # ended after the overlap of a rotation
    REVOKED = "revoked"  # ended at once
    LEAKED = "leaked"  # revoked together with all codes and tokens of the application


class ApplicationSecret(models.Model):
    """A client secret, stored as digest and prefix. An ended secret is kept for 90 days to recognise its use."""

    application = models.ForeignKey("oauth_bridge.Application", on_delete=models.CASCADE, related_name="secrets")
    digest = models.BinaryField(max_length=32, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, editable=False)  # null: never expires
    last_used_at = models.DateTimeField(null=True, editable=False)  # accurate to the minute; null: never used
    # A revocation sets `expires_at` too. This column keeps the secret revoked even if the clock is set back.
    is_revoked = models.BooleanField(default=False, db_default=False, editable=False)
    is_leaked = models.BooleanField(default=False, db_default=False, editable=False)
    number = models.IntegerField(editable=False)  # counts the secrets of one application from 1, and is never reused
    name = models.CharField(
        max_length=NAME_MAX_LENGTH, blank=True, default="", db_default="", validators=[refuse_control_characters]
    )
    # The beginning of the secret, so that people can recognise the secret in a configuration.
    prefix = models.CharField(max_length=PREFIX_LENGTH, default="", db_default="", editable=False)
    maker_id = models.UUIDField(null=True, editable=False)  # the `sub` of the person; null: a command
    maker = models.CharField(max_length=NICKNAME_MAX_LENGTH, default="", db_default="", editable=False)
    # The last e-mail was sent this number of days before the end of the secret.
    told_days = models.IntegerField(null=True, editable=False)

    class Meta:
        ordering = ["-id"]
        # To find out whether a wrong secret belongs to another application.
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["digest"], name="oauth_bridge_secret_digest")]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["application", "number"], name="oauth_bridge_secret_number"),
        ]

    is_still_used = False  # set by `credentials.secret_rotation.states`

    @property
    def works(self) -> bool:
        return not self.is_revoked and (self.expires_at is None or self.expires_at > timezone.now())

    @property
    def state(self) -> State:
        if self.is_leaked:
            return State.LEAKED
        if self.is_revoked:
            return State.REVOKED
        if not self.works:
            return State.EXPIRED
        return State.ENDING if self.expires_at else State.WORKS


class SigningKey(models.Model):
    """A key pair for ID tokens. After `signs_until`, the key only verifies, and the purge sets `private` to null.

    A revoked key has no `private`, is not published, and verifies nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kid = models.CharField(max_length=43, unique=True, editable=False)  # the RFC 7638 thumbprint
    algorithm = models.CharField(max_length=5, editable=False)  # RS256 or ES256 (RFC 7518 §3.1)
    public = models.TextField(editable=False)  # a JWK as JSON
    private = models.BinaryField(null=True, editable=False)  # PKCS #8 in DER, sealed and bound to `id`
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    signs_from = models.DateTimeField(editable=False)
    signs_until = models.DateTimeField(null=True, editable=False)  # null: the key signs until another key replaces it
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["-signs_from", "kid"]
