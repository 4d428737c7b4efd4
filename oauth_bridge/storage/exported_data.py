"""This package's data about a person, for the file that the person downloads."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from oauth_bridge.activity_models import ActivityRecord
from oauth_bridge.models import AccessToken, Application, AuthorizationCode, Consent

if TYPE_CHECKING:
    from accounts.models import User

_COLUMNS = {
    # The first column is the time of the entry.
    "consents": (Consent, ("given_at", "expires_at")),
    "authorization_codes": (AuthorizationCode, ("issued_at", "expires_at", "redeemed_at", "redirect_uri", "scope")),
    "access_tokens": (AccessToken, ("issued_at", "expires_at", "revoked_at", "scope")),
}
_OF_A_RECORD = ("at", "client_id", "step", "outcome", "cause", "reference", "address", "browser")


def stored_about(person: User, entries: int) -> dict[str, list[dict[str, Any]]]:
    """The person's newest rows without digests, at most `entries` of each kind. Each row names its application.

    Only the person's own records of the activity log are included.
    """
    found = {}
    for name, (model, columns) in _COLUMNS.items():
        rows = model._default_manager.filter(user_id=person.pk).order_by(f"-{columns[0]}")
        found[name] = list(rows.values("application_id", *columns)[:entries])
    described = list(chain.from_iterable(found.values()))
    applications = Application.objects.in_bulk({row["application_id"] for row in described})
    for row in described:
        application = applications.get(row.pop("application_id"))
        row["application"] = application.name if application else None
        row["client_id"] = application.client_id if application else None
    records = ActivityRecord.objects.filter(person=person.pk).order_by("-at", "-id")
    found["activity"] = list(records.values(*_OF_A_RECORD)[:entries])
    return found
