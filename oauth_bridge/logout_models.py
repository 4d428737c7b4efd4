"""The table of the sign-ins that applications know by a `sid`. OpenID Connect Back-Channel Logout 1.0."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from config.infrastructure.work_queue import Leased
from oauth_bridge.credential_models import version_of_credentials


def _kept_reference(model: str, *, has_index: bool) -> models.ForeignKey[Any, Any]:
    """Return a foreign key without a database constraint, because the row must outlive a deleted person."""
    return models.ForeignKey(
        model, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=has_index
    )


class ApplicationSession(Leased):
    """A sign-in that an application knows. The primary key is the `sid` in the application's ID tokens.

    The sign-in ends with the browser session that `sign_in` identifies, or when `person_version` is outdated. After the
    end, the application is told at `due_at`. If `due_at` is null, the application is not told.
    `storage.application_sessions` is the only writer.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    sign_in = models.UUIDField(editable=False)
    user = _kept_reference(settings.AUTH_USER_MODEL, has_index=True)
    application = _kept_reference(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, has_index=False)
    person_version = version_of_credentials()
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    due_at = models.DateTimeField(null=True, db_index=True)  # type: ignore[assignment]
    told_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # The index contains the sign-ins that have not ended. The index begins with `application`, because the
            # search for ended sign-ins selects by application.
            models.UniqueConstraint(
                fields=["application", "sign_in", "person_version"],
                name="oauth_bridge_application_session",
                condition=models.Q(ended_at__isnull=True),
            ),
        ]
