"""The tables of codes and tokens. They are stored as SHA-256 digests only (D15).

They refer to people and applications without a database constraint: checking one would lock the person's and the
application's row at every insert. No check is lost, because the statements that redeem a code or read a token check
both rows. No index finds them by application, because one application may own nearly all of them. When an application
is deleted, they stay in the tables, unusable, until they are purged.

All codes and tokens of a person or an application end at once without being updated: each stores the
`credentials_version` of its person and of its application, and is invalid when either has changed since. So do all
tokens that were made with a leaked secret: the application lists the secret, and each token names its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from oauth_bridge.secret_models import ApplicationSecret


def _application() -> models.ForeignKey[Any, Any]:
    """The application of a code or token: a foreign key without an index or a database constraint."""
    return models.ForeignKey(
        settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )


def _openid() -> models.TextField[str | None, str | None]:
    """What an ID token and user info need to know of the sign-in, as JSON; null: the request was plain OAuth 2.0."""
    return models.TextField(null=True, editable=False)


def version_of_credentials() -> models.IntegerField[int, int]:
    """The `credentials_version` of the person or the application when the row was created."""
    return models.IntegerField(default=0, db_default=0, editable=False)


class AuthorizationCode(models.Model):
    """A one-time code, kept after it was redeemed: a replay is recognised (D13, D14), and people see their sign-ins.

    `attempt` identifies the consent page, or the authorization without one, that issued the code. A person has at most
    one valid code for each attempt (D8).
    """

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    former_digest = models.BinaryField(max_length=32, null=True, editable=False)  # of the code that this one replaced
    attempt = models.UUIDField(editable=False)
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
    profile_read_at = models.DateTimeField(null=True)  # for the first time
    token_digest = models.BinaryField(max_length=32, null=True, editable=False)
    openid = _openid()
    person_version = version_of_credentials()
    application_version = version_of_credentials()

    # Not columns: `storage.code_redemption.explain` sets them when it reads the row.
    person_is_active: bool
    ended_by: str | None

    class Meta:
        swappable = "OAUTH2_PROVIDER_GRANT_MODEL"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "attempt"], name="oauth_bridge_one_code_an_attempt"),
        ]
        # For the activity of an hour or a day. A redemption neither looks at `issued_at` nor changes it.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["issued_at"], name="oauth_bridge_code_issued_at"),
            models.Index(
                fields=["former_digest"],
                name="oauth_bridge_code_former",
                condition=models.Q(former_digest__isnull=False),
            ),
        ]


class WithdrawnCode(models.Model):
    """The digest of a code whose row was deleted before it expired. `storage.ended_codes` writes and reads it."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()


class AccessToken(models.Model):
    """A bearer credential, valid for 3,600 seconds. Specification 2.3; D14."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    application = _application()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    scope = models.TextField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    revoked_cause = models.CharField(max_length=40, null=True, editable=False)  # noqa: DJ001 - null costs nothing
    attempt = models.UUIDField(null=True, editable=False)  # that of its code
    # The secret that proved the application; null: it is public, or an earlier release stored the token.
    secret = models.ForeignKey(
        ApplicationSecret,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
        null=True,
        editable=False,
    )
    openid = _openid()
    person_version = version_of_credentials()
    application_version = version_of_credentials()

    # Not columns: `storage.tokens` sets them when it explains why a token is not valid.
    client_id: str | None
    leaked_secrets: str | None
    ended_by: str | None

    class Meta:
        swappable = "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL"
