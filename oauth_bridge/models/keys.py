"""The table of the keys that sign ID tokens. OpenID Connect Core 1.0 §10.1."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone


class SigningKey(models.Model):
    """A key pair, which signs from `signs_from` until `signs_until` and later only verifies signatures.

    `kid` is the RFC 7638 thumbprint. `public` is a JWK as JSON. `private` is PKCS #8 in DER, sealed and bound to `id`;
    `private` is null after the key has stopped signing. A revoked key is not published.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kid = models.CharField(max_length=43, unique=True, editable=False)
    algorithm = models.CharField(max_length=5, editable=False)  # RS256 or ES256 (RFC 7518 §3.1)
    public = models.TextField(editable=False)
    private = models.BinaryField(null=True, editable=False)
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    signs_from = models.DateTimeField(editable=False)
    signs_until = models.DateTimeField(null=True, editable=False)  # null: the key signs until another key replaces it
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["-signs_from", "kid"]
