"""What the audit trail says of an application: which of its registered values an administrator changed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from accounts import audit_trail
from accounts.audit_trail import Subject
from oauth_bridge.models import Application

FIELDS = (
    "name",
    "operator",
    "homepage",
    "policy_uri",
    "tos_uri",
    "logo",
    "redirect_uris",
    "initiate_login_uri",
    "client_type",
    "is_trusted",
    "is_restricted",
)


def subject(application: Application) -> Subject:
    return Subject("application", application.client_id, application.name)


def audited(application: Application) -> AbstractContextManager[None]:
    """Write how the block changes the stored registration."""
    return audit_trail.changes("application_changed", subject(application), lambda: _stored(application))


def registered(application: Application) -> None:
    """Write the values of a new application."""
    values = {name: (None, value) for name, value in _stored(application).items() if value}
    audit_trail.write("application_registered", subject(application), values)


def deleted(application: Application) -> None:
    """Write the last values of an application, before its row is deleted."""
    values = {name: (value, None) for name, value in _stored(application).items() if value}
    audit_trail.write("application_deleted", subject(application), values)


def _stored(application: Application) -> dict[str, object]:
    values = Application.objects.values(*FIELDS).get(pk=application.pk)
    values["redirect_uris"] = values["redirect_uris"].split()
    return {
        **values,
        "groups": list(application.groups.values_list("name", flat=True)),
        "owners": list(application.owners.values_list("pk", flat=True)),
    }
