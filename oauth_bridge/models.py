"""The tables of the bridge: applications, digests of their secrets, codes, tokens and consents.

Codes, tokens and secrets are stored as SHA-256 digests only (D15). The toolkit's columns for grants that this service
does not offer are left out, and every index on codes and tokens is used by a statement.

Codes and tokens refer to people and applications without a database constraint: checking one would lock the person's
and the application's row at every insert. No check is lost, because the statements that redeem a code or read a token
check both rows. No index finds codes and tokens by application, because one application may own nearly all of them.
When an application is deleted, they stay in the tables, unusable, until they are purged.

All codes and tokens of a person or an application end at once without being updated: each stores the
`credentials_version` of its person and of its application, and is invalid when either has changed since. So do all
tokens that were made with a leaked secret: the application lists the secret, and each token names its own.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop
from oauth2_provider.models import AbstractApplication

from accounts.return_path import Caption
from config.infrastructure.validators import refuse_control_characters
from oauth_bridge.activity_models import ActivityBudget, ActivityCount, ActivityRecord  # noqa: F401 - Django finds them here
from oauth_bridge.page_addresses import shown_host, validate_page, validate_sign_in_start
from oauth_bridge.redirect_uri_registration import split_lines, validate_lines
from oauth_bridge.secret_models import ApplicationSecret as ApplicationSecret

NAME_MAX_LENGTH = 80
REASON_MAX_LENGTH = 200


def new_client_id() -> str:
    return uuid.uuid4().hex


class Registered(models.Manager["Application"]):
    """The applications that somebody registered."""

    def get_queryset(self) -> models.QuerySet[Application]:
        return super().get_queryset().exclude(client_id__startswith=Application.TWIN)


class Twins(models.Manager["Application"]):
    """The temporary twins of `storage.twins`."""

    def get_queryset(self) -> models.QuerySet[Application]:
        return super().get_queryset().filter(client_id__startswith=Application.TWIN)


class Application(AbstractApplication):
    """A registered third party, the OAuth client. Specification 2.1."""

    TWIN = "test-sign-in-"  # how the client_id of a twin begins

    objects = Registered()
    twins = Twins()

    client_id = models.CharField(_("client ID"), max_length=255, unique=True, default=new_client_id, editable=False)
    name = models.CharField(_("name"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters])
    homepage = models.URLField(_("homepage"), blank=True, validators=[validate_page])
    # `db_default`: an earlier release, which still runs during an upgrade, creates rows without these columns.
    operator = models.CharField(
        _("operated by"),
        max_length=NAME_MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        validators=[refuse_control_characters],
    )
    # Named as in RFC 7591 §2 and OpenID Connect Dynamic Client Registration 1.0 §2.
    policy_uri = models.URLField(
        _("privacy policy"), max_length=500, blank=True, default="", db_default="", validators=[validate_page]
    )
    tos_uri = models.URLField(
        _("terms"), max_length=500, blank=True, default="", db_default="", validators=[validate_page]
    )
    initiate_login_uri = models.URLField(
        _("sign-in address"), max_length=500, blank=True, default="", db_default="", validators=[validate_sign_in_start]
    )
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
    # Only people in `groups` may use it (D23). `storage.applications.set_groups` writes both.
    is_restricted = models.BooleanField(_("only for people in chosen groups"), default=False, db_default=False)
    # No constraint: the last release, which does not know the table, can still delete an application during an upgrade.
    groups = models.ManyToManyField(Group, verbose_name=_("groups"), related_name="+", blank=True, db_constraint=False)
    # Administrators who look after it (`applications.rights`). `storage.applications.set_owners` writes them.
    owners = models.ManyToManyField(
        settings.AUTH_USER_MODEL, verbose_name=_("owners"), related_name="+", blank=True, db_constraint=False
    )
    # Why, when and by whom it was switched off: the name of an administrator, which outlives the account.
    disabled_reason = models.CharField(
        _("reason"),
        max_length=REASON_MAX_LENGTH,
        blank=True,
        default="",
        db_default="",
        validators=[refuse_control_characters],
    )
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_by = models.CharField(max_length=120, default="", db_default="", editable=False)
    credentials_version = models.IntegerField(default=0, db_default=0, editable=False)
    # The highest number that a secret of it ever had. Only `storage.client_secrets` writes this and the next.
    last_secret_number = models.IntegerField(default=0, db_default=0, editable=False)
    # The keys of its secrets that leaked lately, such as ",12,45,". No token that was made with one of them is valid.
    leaked_secrets = models.TextField(default="", db_default="", editable=False)

    # Fields of the toolkit's model that this service does not offer or stores in another table.
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
            ("rotate_applicationsecret", gettext_noop("Can make new client secrets")),
            ("trust_application", gettext_noop("Can mark applications as trusted")),
            ("switch_application", gettext_noop("Can switch applications off and on")),
        ]

    @property
    def callback_addresses(self) -> list[str]:
        """The registered redirect_uris. A request must send one of them unchanged (D3)."""
        return split_lines(self.redirect_uris)

    @property
    def is_public(self) -> bool:
        """Whether it has no secret and proves itself by PKCE (D9)."""
        return self.client_type == self.CLIENT_PUBLIC

    @property
    def homepage_host(self) -> str:
        return shown_host(self.homepage)

    @property
    def logo_url(self) -> str:
        """The absolute URL of the logo; an empty string when the application has none."""
        return f"{settings.BASE_URL}{reverse('logo', args=[self.logo])}" if self.logo else ""

    @property
    def caption(self) -> Caption:
        """The application as pages show it."""
        return Caption(self.name, self.homepage_host, self.logo_url, self.homepage)

    def clean(self) -> None:
        self.redirect_uris = "\n".join(self.callback_addresses)


def _application() -> models.ForeignKey[Any, Any]:
    """The application of a code or token: a foreign key without an index or a database constraint."""
    return models.ForeignKey(
        Application, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )


def _version() -> models.IntegerField[int, int]:
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
    person_version = _version()
    application_version = _version()

    # Not columns: `storage.codes.explain` sets them when it reads the row.
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
    person_version = _version()
    application_version = _version()

    # Not columns: `storage.tokens` sets them when it explains why a token is not valid.
    client_id: str | None
    leaked_secrets: str | None
    ended_by: str | None

    class Meta:
        swappable = "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL"


class RefreshToken(models.Model):
    """Required by the toolkit. No refresh token is issued (D11)."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL"


class IDToken(models.Model):
    """Required by the toolkit. No ID token is issued (D11)."""

    class Meta:
        swappable = "OAUTH2_PROVIDER_ID_TOKEN_MODEL"


class Consent(models.Model):
    """A person has allowed an application, for the first time at `given_at`, and has not disconnected it since.

    `fingerprint` identifies the name, homepage and callback addresses that the person agreed to last. "Don't ask again"
    (D7) is remembered until `expires_at`; null: the person is asked every time. Remembering ends when the application's
    fingerprint or the person's `credentials_version` changes; the consent stays.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="+")
    fingerprint = models.CharField(max_length=64)
    given_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    person_version = _version()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "application"], name="oauth_bridge_consent_once"),
        ]


class PurgeRun(models.Model):
    """The time of the last complete run of `manage.py purge`. At most one row exists."""

    finished_at = models.DateTimeField()
