"""Make and delete twins: temporary copies of applications, to test a sign-in. No list or count includes twins.

A twin copies the groups of its application and the columns in COPIED. Its callback address belongs to this service, and
its secret ends after LIFETIME. The test cannot use the application itself, because only digests of its secrets are
stored (D15), and its callback addresses do not belong to this service (D3).
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.random_values import digest_of, new_credential

LIFETIME = timedelta(minutes=5)
COPIED = ("name", "homepage", "operator", "policy_uri", "tos_uri", "logo", "client_type", "is_trusted", "is_enabled")


@transaction.atomic
def make(application: Application, callback: str) -> tuple[Application, str]:
    """Make a twin and its secret, and delete old twins. The secret of a public client is an empty string."""
    delete_old()
    twin = Application(
        client_id=f"{Application.TWIN}{uuid.uuid4().hex}",
        redirect_uris=callback,
        is_restricted=application.is_restricted,
        **{name: getattr(application, name) for name in COPIED},
    )
    twin.save(force_insert=True)
    twin.groups.set(application.groups.all())
    if twin.is_public:
        return twin, ""
    secret = new_credential()
    ApplicationSecret.objects.create(
        application=twin, number=1, digest=digest_of(secret), expires_at=timezone.now() + LIFETIME
    )
    return twin, secret


def delete(client_id: str) -> None:
    """Delete the twin. Its codes and tokens are refused at once."""
    Application.twins.filter(client_id=client_id).delete()


def delete_old() -> None:
    Application.twins.filter(created__lt=timezone.now() - LIFETIME).delete()
