"""What this package stores about a person, for the file that the person downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oauth_bridge.models import AccessToken, Application, AuthorizationCode, Consent

if TYPE_CHECKING:
    from accounts.models import User

_COLUMNS = {
    "consents": (Consent, ("given_at", "expires_at")),
    "authorization_codes": (AuthorizationCode, ("redirect_uri", "scope", "issued_at", "expires_at", "redeemed_at")),
    "access_tokens": (AccessToken, ("scope", "issued_at", "expires_at", "revoked_at")),
}


def stored_about(person: User) -> dict[str, list[dict[str, Any]]]:
    """The person's rows, without digests. Each names its application, if that still exists."""
    found = {
        name: list(model._default_manager.filter(user_id=person.pk).order_by("pk").values("application_id", *columns))
        for name, (model, columns) in _COLUMNS.items()
    }
    rows = [row for entries in found.values() for row in entries]
    applications = Application.objects.in_bulk({row["application_id"] for row in rows})
    for row in rows:
        application = applications.get(row.pop("application_id"))
        row["application"] = application.name if application else None
        row["client_id"] = application.client_id if application else None
    return found
