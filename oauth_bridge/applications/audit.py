"""The audit trail of an application: the registration, changes of registered values, and the deletion."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from accounts import audit_trail
from accounts.audit_trail import Subject
from accounts.models import AuditEntry
from config.infrastructure.errors import RequestError
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.applications.fields import FIELDS
from oauth_bridge.models import Application

# `set_enabled` writes entries of its own.
AUDITED = (*(field.column for field in FIELDS if field.name not in ("enabled", "groups")), "logo")

DELETED = "application_deleted"
# `add_deletion` adds these columns of a deletion's audit entry to an error, as private facts. A client_id is never
# reused, so the deletion is the last entry of an application.
DELETION = Rows(AuditEntry, "at", "actor_name", "name")
FIND_DELETION = f"""
    SELECT {DELETION.columns("e")} FROM {AuditEntry._meta.db_table} e
     WHERE e.kind = 'application' AND e.key = %(deleted_client_id)s AND e.action = '{DELETED}'
     ORDER BY e.id DESC LIMIT 1
"""  # noqa: S608 - the name of a table only


def subject(application: Application) -> Subject:
    return Subject("application", application.client_id, application.name)


def audited(application: Application) -> AbstractContextManager[None]:
    """A context manager. After its block, it writes the changes of the registered values to the audit trail."""
    return audit_trail.changes("application_changed", subject(application), lambda: _stored(application))


def registered(application: Application) -> None:
    """Write the values of a new application to the audit trail."""
    values = {name: (None, value) for name, value in _stored(application).items() if value}
    audit_trail.write("application_registered", subject(application), values)


def deleted(application: Application) -> None:
    """Write the last values of an application to the audit trail. Call this before the row is deleted."""
    values = {name: (value, None) for name, value in _stored(application).items() if value}
    audit_trail.write(DELETED, subject(application), values)


def explain_unknown(error: RequestError, client_id: str) -> None:
    """Add private facts to the error if the application of this client_id was deleted. One statement."""
    if row := fetch_one(FIND_DELETION, deleted_client_id=client_id):
        add_deletion(error, row)


def add_deletion(error: RequestError, row: Sequence[Any]) -> None:
    """Add private facts about a deletion to the error. `row` has the columns of DELETION."""
    entry = DELETION.instance(row)
    at = f"{entry.at:%Y-%m-%d %H:%M} UTC"
    error.about(cause="client_deleted", deleted_name=entry.name, deleted_at=at, deleted_by=entry.actor_name)


def _stored(application: Application) -> dict[str, object]:
    values = Application.objects.values(*AUDITED).get(pk=application.pk)
    for name in ("redirect_uris", "post_logout_redirect_uris"):
        values[name] = values[name].split()
    return {
        **values,
        "groups": list(application.groups.values_list("name", flat=True)),
        "owners": list(application.owners.values_list("pk", flat=True)),
    }
