"""What the bridge keeps: applications, digests of their secrets, codes and tokens, and remembered consents.

Codes, tokens and secrets exist here as SHA-256 digests only (D15). The tables are lean on purpose: the toolkit's
columns for grants this service does not offer are left out, and every index of codes and tokens has a reader. They name
people and applications without a constraint of the database's, which would lock both rows for each of them: a code is
redeemed by an application that has been authenticated, and a token is read together with both, so one that is left
without them is worth nothing. No index finds them by application, of which one may hold nearly all: they outlive it,
unusable, until they are purged.

To end all of a person's or an application's at once, no row of them is touched: each carries the `credentials_version`
that its person and its application had, and is worth nothing once one of them has another.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core.validators import URLValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import AbstractApplication

from config.infrastructure.text import refuse_control_characters
from oauth_bridge.redirect_uris import lines_of, validate_lines

NAME_MAX_LENGTH = 80


def new_client_id() -> str:
    return uuid.uuid4().hex


class Application(AbstractApplication):
    """A registered third party, the OAuth client. Specification 2.1."""

    client_id = models.CharField(_("client ID"), max_length=255, unique=True, default=new_client_id, editable=False)
    name = models.CharField(_("name"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters])
    homepage = models.URLField(_("homepage"), blank=True, validators=[URLValidator(["https", "http"])])
    logo = models.CharField(_("logo"), max_length=100, blank=True, editable=False)
    redirect_uris = models.TextField(
        _("callback addresses"), help_text=_("One address a line."), validators=[validate_lines]
    )
    client_type = models.CharField(
        _("kind"),
        max_length=32,
        choices=AbstractApplication.CLIENT_TYPES,
        default=AbstractApplication.CLIENT_CONFIDENTIAL,
    )
    is_trusted = models.BooleanField(_("trusted"), default=False)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    credentials_version = models.IntegerField(default=0, db_default=0, editable=False)

    # Parts of the toolkit's model that this service does not offer, or keeps elsewhere.
    user = None
    client_secret = None
    hash_client_secret = None  # type: ignore[assignment]
    skip_authorization = None  # type: ignore[assignment]
    post_logout_redirect_uris = None  # type: ignore[assignment]
    allowed_origins = None  # type: ignore[assignment]
    registration_source = None  # type: ignore[assignment]
    cimd_expires_at = None
    authorization_grant_type = AbstractApplication.GRANT_AUTHORIZATION_CODE
    algorithm = AbstractApplication.NO_ALGORITHM

    class Meta:
        swappable = "OAUTH2_PROVIDER_APPLICATION_MODEL"
        verbose_name = _("application")
        verbose_name_plural = _("applications")
        ordering = ["name", "id"]
        permissions = [
            ("rotate_applicationsecret", "Can make new client secrets"),
            ("trust_application", "Can mark applications as trusted"),
        ]

    @property
    def callback_addresses(self) -> list[str]:
        """The registered redirect_uris, each exactly as it must be sent (D3)."""
        return lines_of(self.redirect_uris)

    @property
    def homepage_host(self) -> str:
        return urlsplit(self.homepage).netloc

    def clean(self) -> None:
        self.redirect_uris = "\n".join(self.callback_addresses)


class ApplicationSecret(models.Model):
    """The digest of a client secret. The secret itself is shown once and never stored (D15).

    An expired one is remembered for a while, so that its use is recognised. One that was revoked stays so whatever
    the clock says; its `expires_at` is the time of that. `last_used_at` is right to the minute.
    """

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="secrets")
    digest = models.BinaryField(max_length=32, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, editable=False)  # null: no end
    last_used_at = models.DateTimeField(null=True, editable=False)  # null: never
    is_revoked = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        ordering = ["-id"]

    @property
    def works(self) -> bool:
        return not self.is_revoked and (self.expires_at is None or self.expires_at > timezone.now())


def _application() -> models.ForeignKey[Any, Any]:
    """The application of a code or token: of an index and a constraint, neither."""
    return models.ForeignKey(
        Application, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )


def _version() -> models.IntegerField[int, int]:
    """The `credentials_version` of a person or an application when the row was made."""
    return models.IntegerField(default=0, db_default=0, editable=False)


class AuthorizationCode(models.Model):
    """A one-time code, remembered after it was redeemed so that a replay is recognised (D13, D14).

    `attempt` is the consent page (or the direct answer) it came from; one of a person has one live code at most (D8).
    """

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
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
    token_digest = models.BinaryField(max_length=32, null=True, editable=False)
    person_version = _version()
    application_version = _version()

    # Set where `storage.codes.explain` reads the row.
    person_is_active: bool
    is_ended: bool

    class Meta:
        swappable = "OAUTH2_PROVIDER_GRANT_MODEL"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "attempt"], name="oauth_bridge_one_code_an_attempt"),
        ]


class AccessToken(models.Model):
    """A bearer credential, valid for 3,600 seconds. Specification 2.3; D14."""

    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    application = _application()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    scope = models.TextField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    person_version = _version()
    application_version = _version()

    class Meta:
        swappable = "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL"


class RefreshToken(models.Model):
    """Stands where the toolkit wants a model. No refresh token exists (D11)."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL"


class IDToken(models.Model):
    """Stands where the toolkit wants a model. No identity token exists yet (D11)."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_ID_TOKEN_MODEL"


class Consent(models.Model):
    """A person's "don't ask again for this application" (D7).

    `fingerprint` is that of the name, homepage and addresses the person agreed to; another one ends the consent, and so
    does another `credentials_version` of the person.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="+")
    fingerprint = models.CharField(max_length=64)
    given_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    person_version = _version()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "application"], name="oauth_bridge_consent_once"),
        ]


class PurgeRun(models.Model):
    """When `manage.py purge` last went through all tables; one row at most."""

    finished_at = models.DateTimeField()
