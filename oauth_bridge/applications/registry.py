"""Find, store, switch on or off, and delete registered applications, and write their audit trail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import audit_trail
from accounts.audit_trail import Subject
from accounts.models import AuditEntry, StoredPicture, User
from config.infrastructure import events
from config.infrastructure.errors import RequestError
from config.infrastructure.events import Event
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.applications import look_alikes
from oauth_bridge.applications.fields import FIELDS
from oauth_bridge.models import Application, Consent

# The fields that no authorization request needs are left out. Django loads such a field on access.
APPLICATIONS = Rows(
    Application,
    without=(
        "updated",
        "last_secret_number",
        "disabled_reason",
        "disabled_at",
        "disabled_by",
        "id_token_alg",
        "post_logout_redirect_uris",
    ),
)

FIND_APPLICATION = (
    f"SELECT {APPLICATIONS.columns('a')} FROM {Application._meta.db_table} a WHERE a.client_id = %(client_id)s"  # noqa: S608
)

# The columns whose changes the audit trail shows. `set_enabled` writes its own entries, and `_stored` adds the groups.
AUDITED = (*(field.column for field in FIELDS if field.name not in ("enabled", "groups")), "logo")

# `add_deletion` reads these columns of the audit entry. A client_id is never reused, so the deletion is the last entry.
DELETION = Rows(AuditEntry, "at", "actor_name", "name")
FIND_DELETION = f"""
    SELECT {DELETION.columns("e")} FROM {AuditEntry._meta.db_table} e
     WHERE e.kind = 'application' AND e.key = %(deleted_client_id)s AND e.action = 'application_deleted'
     ORDER BY e.id DESC LIMIT 1
"""  # noqa: S608 - the name of a table only


def find(client_id: str) -> Application | None:
    """Return the application with this client_id, or None. The application may be switched off."""
    if not client_id.isprintable():  # PostgreSQL rejects a text with NUL
        return None
    row = fetch_one(FIND_APPLICATION, client_id=client_id)
    return None if row is None else APPLICATIONS.instance(row)


@transaction.atomic
def add(application: Application, groups: Collection[Group]) -> None:
    """Save a new application with validated values and no secret. Groups restrict the application to their members."""
    application.is_restricted = application.is_restricted or bool(groups)
    application.save(force_insert=True)
    application.groups.set(groups)
    write_registration(application)
    events.write(Event.APPLICATION_REGISTERED, client_id=application.client_id)


@transaction.atomic
def save(application: Application, columns: Collection[str], groups: Collection[Group] | None) -> None:
    """Store `columns` and `groups`. All values are already validated. If `groups` is None, keep the stored groups."""
    changed = [column for column in columns if column != "is_enabled"]
    with audited(application):
        if changed:
            application.save(update_fields=[*changed, "updated"])
        if groups is not None:
            application.groups.set(groups)
            changed.append("groups")
    if changed:
        events.write(Event.APPLICATION_CHANGED, client_id=application.client_id, fields=" ".join(changed))
    if "is_enabled" in columns:
        set_enabled(application, application.is_enabled)


@transaction.atomic
def set_enabled(application: Application, is_enabled: bool, *, reason: str = "") -> None:
    """Switch the application on or off. A change in either direction ends the application's codes and tokens."""
    now = timezone.now()
    changed = Application.objects.filter(pk=application.pk).exclude(is_enabled=is_enabled)
    if changed.update(
        is_enabled=is_enabled,
        disabled_reason="" if is_enabled else reason,
        disabled_at=None if is_enabled else now,
        disabled_by="" if is_enabled else audit_trail.actor_name(),
        credentials_version=F("credentials_version") + 1,
        updated=now,
    ):
        event = Event.APPLICATION_SWITCHED_ON if is_enabled else Event.APPLICATION_SWITCHED_OFF
        events.write(event, client_id=application.client_id)
        changes = {"disabled_reason": (None, reason)} if reason and not is_enabled else {}
        audit_trail.write(event.name.lower(), subject(application), changes)
    disabled = ("disabled_reason", "disabled_at", "disabled_by")
    application.refresh_from_db(fields=["is_enabled", "credentials_version", "updated", *disabled])


@transaction.atomic
def set_trusted(application: Application, is_trusted: bool, seen: QuerySet[Application]) -> None:
    """Set whether people sign in without a consent page. Raises ValidationError as `look_alikes.refuse` does."""
    if is_trusted:
        look_alikes.refuse(look_alikes.find(application.name, application.pk), is_trusted=True, seen=seen)
    application.is_trusted = is_trusted
    save(application, ["is_trusted"], None)


@transaction.atomic
def set_owners(application: Application, owners: Collection[User]) -> None:
    # The lock keeps these people from being demoted until the transaction ends.
    people = User.objects.filter(pk__in=[person.pk for person in owners]).order_by("pk").select_for_update(no_key=True)
    if not all(person.is_staff and person.is_active for person in people):
        raise ValidationError(_("Only people who may open the administration can be owners."))
    with audited(application):
        application.owners.set(people)


@transaction.atomic
def end_access(application: Application) -> int:
    """End all codes, tokens and consents of the application. Return the number of consents."""
    Application.objects.filter(pk=application.pk).update(credentials_version=F("credentials_version") + 1)
    people = Consent.objects.filter(application=application).delete()[0]
    events.write(Event.APPLICATION_ACCESS_ENDED, client_id=application.client_id)
    audit_trail.write("all_access_ended", subject(application), {"people": (people, None)})
    application.refresh_from_db(fields=["credentials_version"])
    return people


@transaction.atomic
def set_groups(application: Application, groups: Collection[Group]) -> None:
    """Let only people in these groups use the application. If there are no groups, let everybody use it."""
    with audited(application):
        application.is_restricted = bool(groups)
        application.save(update_fields=["is_restricted", "updated"])
        application.groups.set(groups)


@transaction.atomic
def delete(application: Application) -> None:
    """Delete the application with its secrets, consents and logo. Its codes and tokens end."""
    values = {name: (value, None) for name, value in _stored(application).items() if value}
    audit_trail.write("application_deleted", subject(application), values)
    events.write(Event.APPLICATION_DELETED, client_id=application.client_id)
    StoredPicture.objects.filter(name=f"logos/{application.logo}").delete()
    application.delete()


def subject(application: Application) -> Subject:
    return Subject("application", application.client_id, application.name)


def audited(application: Application) -> AbstractContextManager[None]:
    """Write to the audit trail what the `with` block changes in the application."""
    return audit_trail.changes("application_changed", subject(application), lambda: _stored(application))


def write_registration(application: Application) -> None:
    values = {name: (None, value) for name, value in _stored(application).items() if value}
    audit_trail.write("application_registered", subject(application), values)


def _stored(application: Application) -> dict[str, object]:
    values = Application.objects.values(*AUDITED).get(pk=application.pk)
    return {
        **values,
        **{name: values[name].split() for name in ("redirect_uris", "post_logout_redirect_uris")},
        "groups": list(application.groups.values_list("name", flat=True)),
        "owners": list(application.owners.values_list("pk", flat=True)),
    }


def explain_unknown(error: RequestError, client_id: str) -> None:
    """Add facts to the error if an application with this client_id was deleted. Only logs show the facts."""
    if client_id.isprintable() and (row := fetch_one(FIND_DELETION, deleted_client_id=client_id)):
        add_deletion(error, row)


def add_deletion(error: RequestError, row: Sequence[Any]) -> None:
    """Add facts about a deletion to the error. Only logs show the facts. `row` has the columns of DELETION."""
    entry = DELETION.instance(row)
    at = f"{entry.at:{audit_trail.TIME_FORMAT}}"
    error.about(cause="client_deleted", deleted_name=entry.name, deleted_at=at, deleted_by=entry.actor_name)
