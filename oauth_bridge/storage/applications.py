"""Registered applications: find, store validated values, enable. Specification 2.1; D15, D17.

The form `applications.forms.ApplicationForm` validates the values, for pages and for commands.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import audit_trail
from accounts.models import StoredPicture, User
from config.infrastructure import events
from config.infrastructure.errors import RequestError
from config.infrastructure.events import Event
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.models import Application, Consent
from oauth_bridge.storage import application_audit, look_alikes

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


def find(client_id: str) -> Application | None:
    """The application with this client_id, enabled or not. One statement."""
    if not client_id.isprintable():  # PostgreSQL rejects a text with NUL
        return None
    row = fetch_one(FIND_APPLICATION, client_id=client_id)
    return None if row is None else APPLICATIONS.instance(row)


def explain_unknown(error: RequestError, client_id: str) -> None:
    """Add private facts to the error if the application of this client_id was deleted. One statement."""
    if client_id.isprintable():
        application_audit.explain_unknown(error, client_id)


@transaction.atomic
def add(application: Application, groups: Collection[Group]) -> None:
    """Save a new application with validated values, without a secret."""
    application.is_restricted = application.is_restricted or bool(groups)
    application.save(force_insert=True)
    application.groups.set(groups)
    application_audit.registered(application)
    events.write(Event.APPLICATION_REGISTERED, client_id=application.client_id)


@transaction.atomic
def save(application: Application, columns: Collection[str], groups: Collection[Group] | None) -> None:
    """Store the validated values of these columns, and the groups if they are given."""
    changed = [column for column in columns if column != "is_enabled"]
    with application_audit.audited(application):
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
    """Switch the application on or off. A change ends the application's codes and tokens.

    `reason` is the reason for switching off. One statement ends any number of codes and tokens. D17.
    """
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
        audit_trail.write(event.name.lower(), application_audit.subject(application), changes)
    disabled = ("disabled_reason", "disabled_at", "disabled_by")
    application.refresh_from_db(fields=["is_enabled", "credentials_version", "updated", *disabled])


@transaction.atomic
def set_trusted(application: Application, is_trusted: bool, seen: QuerySet[Application]) -> None:
    """Set whether people sign in to the application without a consent page. D7.

    `seen`: the applications that the administrator may see. Raises ValidationError: `look_alikes` refuses the name.
    """
    if is_trusted:
        look_alikes.refuse(application.name, is_trusted=True, seen=seen, besides=application.pk)
    with application_audit.audited(application):
        application.is_trusted = is_trusted
        application.save(update_fields=["is_trusted", "updated"])
    events.write(Event.APPLICATION_CHANGED, client_id=application.client_id, fields="is_trusted")


@transaction.atomic
def set_owners(application: Application, owners: Collection[User]) -> None:
    """Replace the owners of the application by these administrators.

    Raises ValidationError: one of the people cannot open the administration.
    """
    # The lock keeps these people from being demoted until the transaction ends.
    people = User.objects.filter(pk__in=[person.pk for person in owners]).order_by("pk").select_for_update(no_key=True)
    if not all(person.is_staff and person.is_active for person in people):
        raise ValidationError(_("Only people who may open the administration can be owners."))
    with application_audit.audited(application):
        application.owners.set(people)


@transaction.atomic
def end_access(application: Application) -> int:
    """End all codes, tokens and consents of the application, which stays switched on. Returns the number of consents.

    A code that is issued at the same time has the earlier `credentials_version`, so its exchange is refused.
    """
    Application.objects.filter(pk=application.pk).update(credentials_version=F("credentials_version") + 1)
    people = Consent.objects.filter(application=application).delete()[0]
    events.write(Event.APPLICATION_ACCESS_ENDED, client_id=application.client_id)
    audit_trail.write("all_access_ended", application_audit.subject(application), {"people": (people, None)})
    application.refresh_from_db(fields=["credentials_version"])
    return people


@transaction.atomic
def set_groups(application: Application, groups: Collection[Group]) -> None:
    """Restrict the application to people in these groups; without groups, everybody may use it. D23.

    Codes and tokens of other people are refused at once. If another person joins one of the groups, that person's
    unexpired codes and tokens are valid again.
    """
    with application_audit.audited(application):
        application.is_restricted = bool(groups)
        application.save(update_fields=["is_restricted", "updated"])
        application.groups.set(groups)


@transaction.atomic
def delete(application: Application) -> None:
    """Delete the application with its secrets, consents and logo. Its codes and tokens are invalid at once."""
    application_audit.deleted(application)
    events.write(Event.APPLICATION_DELETED, client_id=application.client_id)
    StoredPicture.objects.filter(name=f"logos/{application.logo}").delete()
    application.delete()
