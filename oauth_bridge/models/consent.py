"""The table of the applications that people have allowed. D7."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from oauth_bridge.models.credentials import version_of_credentials


class Consent(models.Model):
    """A person has allowed an application, for the first time at `given_at`, and has not disconnected it since.

    `fingerprint` identifies the application's name, homepage and callback addresses at the last agreement. "Don't ask
    again" (D7) is remembered until `expires_at`. If `expires_at` is null, the person is asked every time. A change of
    the application's fingerprint or the person's `credentials_version` ends "don't ask again", but not the consent.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    application = models.ForeignKey("oauth_bridge.Application", on_delete=models.CASCADE, related_name="+")
    fingerprint = models.CharField(max_length=64)
    # The names of the agreed facts (see `openid.claims`), in order; null for the four facts of plain OAuth 2.0.
    agreed = models.TextField(null=True, editable=False)  # noqa: DJ001 - null: see above
    given_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    person_version = version_of_credentials()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "application"], name="oauth_bridge_consent_once"),
        ]
