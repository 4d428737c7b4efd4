"""The table of applications."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop
from oauth2_provider.models import AbstractApplication

from config.infrastructure.texts import first_grapheme, refuse_control_characters
from oauth_bridge.callback_addresses.registration import (
    shown_host,
    split_lines,
    validate_after_sign_out,
    validate_lines,
    validate_page,
    validate_sign_in_start,
    without_loopback_port,
)

NAME_MAX_LENGTH = 80
REASON_MAX_LENGTH = 200
CLIENT_ID_LENGTH = 32
TYPING_ERRORS = 2
# A client_id with at most TYPING_ERRORS characters too few or too many. Every credential is longer.
MISTYPED_CLIENT_ID = rf"[0-9a-z]{{{CLIENT_ID_LENGTH - TYPING_ERRORS},{CLIENT_ID_LENGTH + TYPING_ERRORS}}}"


# `db_default`: during an upgrade, an earlier release inserts rows without the newer columns.
OPTIONAL: dict[str, Any] = {"blank": True, "default": "", "db_default": ""}


def new_client_id() -> str:
    return uuid.uuid4().hex


class Application(AbstractApplication):
    """A registered third party, the OAuth client. Specification 2.1."""

    # The columns of the toolkit's model that this service does not use.
    user = client_secret = hash_client_secret = skip_authorization = allowed_origins = None  # type: ignore[assignment]
    authorization_grant_type = algorithm = registration_source = cimd_expires_at = None  # type: ignore[assignment]

    ID_TOKEN_ALGS = [("RS256", "RS256"), ("ES256", "ES256")]

    objects = models.Manager["Application"]()

    client_id = models.CharField(_("client ID"), max_length=255, unique=True, default=new_client_id, editable=False)
    name = models.CharField(_("name"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters])
    homepage = models.URLField(_("homepage"), blank=True, validators=[validate_page])
    operator = models.CharField(
        _("operated by"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters], **OPTIONAL
    )
    # RFC 7591 §2; OpenID Connect Dynamic Client Registration 1.0 §2.
    policy_uri = models.URLField(_("privacy policy"), max_length=500, validators=[validate_page], **OPTIONAL)
    tos_uri = models.URLField(_("terms"), max_length=500, validators=[validate_page], **OPTIONAL)
    initiate_login_uri = models.URLField(
        _("sign-in address"), max_length=500, validators=[validate_sign_in_start], **OPTIONAL
    )
    # OpenID Connect RP-Initiated Logout 1.0 §3.1.
    post_logout_redirect_uris = models.TextField(
        _("addresses after a sign-out"),
        help_text=_("One address a line."),
        validators=[validate_after_sign_out],
        **OPTIONAL,
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
    id_token_alg = models.CharField(
        _("signature of ID tokens"),
        max_length=5,
        choices=ID_TOKEN_ALGS,
        default="RS256",
        db_default="RS256",
    )
    # If true, the ID token contains the claims of the scopes too, for libraries that do not read user info.
    profile_in_id_token = models.BooleanField(
        _("name and e-mail address in the ID token"), default=False, db_default=False
    )
    is_trusted = models.BooleanField(_("trusted"), default=False)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    is_restricted = models.BooleanField(_("only for people in chosen groups"), default=False, db_default=False)
    # No constraint: during an upgrade, the previous release, which does not know the table, may delete applications.
    groups = models.ManyToManyField(Group, verbose_name=_("groups"), related_name="+", blank=True, db_constraint=False)
    # Administrators who have the rights of `administration.rights`.
    owners = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owners"),
        related_name="owned_applications",
        blank=True,
        db_constraint=False,
    )
    disabled_reason = models.CharField(
        _("reason"), max_length=REASON_MAX_LENGTH, validators=[refuse_control_characters], **OPTIONAL
    )
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_by = models.CharField(max_length=120, default="", db_default="", editable=False)
    credentials_version = models.IntegerField(default=0, db_default=0, editable=False)
    # The highest number that a secret of the application has had.
    last_secret_number = models.IntegerField(default=0, db_default=0, editable=False)

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
        return split_lines(self.redirect_uris)

    def is_callback(self, uri: str) -> bool:
        """Return whether an authorization request may send this redirect_uri."""
        return uri in self.callback_addresses or self.has_own_port(uri)

    def has_own_port(self, uri: str) -> bool:
        """Return whether the application is public and has registered the loopback address `uri` only without its port.

        Another program may listen at the port, so the person is always asked for consent. RFC 8252 §7.3, §8.6.
        """
        if not self.is_public or not (registered := without_loopback_port(uri)):
            return False
        return uri not in self.callback_addresses and registered in self.callback_addresses

    @property
    def addresses_after_sign_out(self) -> list[str]:
        return split_lines(self.post_logout_redirect_uris)

    @property
    def is_public(self) -> bool:
        return self.client_type == self.CLIENT_PUBLIC

    @property
    def homepage_host(self) -> str:
        return shown_host(self.homepage)

    @property
    def logo_url(self) -> str:
        return f"{settings.BASE_URL}{reverse('logo', args=[self.logo])}" if self.logo else ""

    @property
    def initial(self) -> str:
        """The upper-case first character of the name. Pages show it if the application has no logo."""
        return first_grapheme(self.name).upper()

    def clean(self) -> None:
        self.redirect_uris = "\n".join(self.callback_addresses)
        self.post_logout_redirect_uris = "\n".join(self.addresses_after_sign_out)
