"""The tables of codes, access tokens and consents. Codes and tokens are stored only as SHA-256 digests.

Codes and tokens have no foreign key constraints, which would lock the person and the application at every insert.
The person and the application are checked at each use instead. A new `credentials_version` ends codes and tokens.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models


def _application() -> models.ForeignKey[Any, Any]:
    """Return a foreign key to an application, without an index, because one application may own nearly all rows."""
    return models.ForeignKey(
        settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
        on_delete=models.DO_NOTHING,  # the purge deletes the rows later
        related_name="+",
        db_constraint=False,
        db_index=False,
    )


def version_of_credentials() -> models.IntegerField[int, int]:
    return models.IntegerField(default=0, db_default=0, editable=False)


class AuthorizationCode(models.Model):
    """A one-time code. A redeemed code is kept to recognise its second use and to show people their sign-ins."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    former_digest = models.BinaryField(max_length=32, null=True, editable=False)  # of the code that this code replaced
    attempt = models.UUIDField(editable=False)  # the authorization request that led to the code
    application = _application()
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    redirect_uri = models.TextField()
    scope = models.TextField()
    code_challenge = models.CharField(max_length=64, blank=True)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    profile_read_at = models.DateTimeField(null=True)  # when the application first read the profile
    is_expiry_recorded = models.BooleanField(default=False, db_default=False, editable=False)  # for unredeemed codes
    token_digest = models.BinaryField(max_length=32, null=True, editable=False)
    # `openid.request.Granted` as JSON; null for a plain OAuth 2.0 request.
    openid = models.TextField(null=True, editable=False)  # noqa: DJ001
    person_version = version_of_credentials()
    application_version = version_of_credentials()

    client_id: str  # no column: `credentials.code_history` adds it; empty if the application is deleted

    class Meta:
        swappable = "OAUTH2_PROVIDER_GRANT_MODEL"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "attempt"], name="oauth_bridge_one_code_an_attempt"),
        ]
        # For the activity log.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["issued_at"], name="oauth_bridge_code_issued_at"),
            models.Index(
                fields=["former_digest"],
                name="oauth_bridge_code_former",
                condition=models.Q(former_digest__isnull=False),
            ),
        ]


class WithdrawnCode(models.Model):
    """The digest of a code that `codes.withdraw` deleted. With it, `codes.ended` explains why the code is refused."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()


class AccessToken(models.Model):
    """A bearer credential, valid for at most 3,600 seconds. Specification 2.3."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    application = _application()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    scope = models.TextField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    revoked_cause = models.CharField(max_length=40, null=True, editable=False)  # noqa: DJ001 - null costs nothing
    attempt = models.UUIDField(null=True, editable=False)  # the attempt of the redeemed code
    openid = models.TextField(null=True, editable=False)  # noqa: DJ001 - as that of the code
    person_version = version_of_credentials()
    application_version = version_of_credentials()

    # No columns: `credentials.tokens` explains with them why a token is invalid.
    client_id: str | None
    ended_by: str | None

    class Meta:
        swappable = "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL"


class RefreshToken(models.Model):
    """An empty table, which the toolkit requires."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL"


class IDToken(models.Model):
    """An empty table, which the toolkit requires."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_ID_TOKEN_MODEL"


class Consent(models.Model):
    """The consent of a person to an application. The row is deleted when the person disconnects the application.

    "Don't ask again" ends at `expires_at`, or when the fingerprint or the person's `credentials_version` changes.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    application = models.ForeignKey("oauth_bridge.Application", on_delete=models.CASCADE, related_name="+")
    fingerprint = models.CharField(max_length=64)  # of the application's name, homepage and callback addresses
    # The names of the agreed facts (see `openid.claims`), in order; null for the four facts of plain OAuth 2.0.
    agreed = models.TextField(null=True, editable=False)  # noqa: DJ001 - null: see above
    given_at = models.DateTimeField()  # the first consent
    expires_at = models.DateTimeField(null=True)  # null: "Don't ask again" was not chosen
    person_version = version_of_credentials()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "application"], name="oauth_bridge_consent_once"),
        ]
