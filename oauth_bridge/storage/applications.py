"""Registered applications: find, register, enable. Specification 2.1; D15, D17.

The only writer of their rows except the form of Django admin.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import audit_trail
from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.models import Application
from oauth_bridge.storage import client_secrets, consents, look_alikes, registration_changes

if TYPE_CHECKING:
    from accounts.models import User

APPLICATIONS = Rows(
    Application,
    without=("updated", "last_secret_number", "leaked_secrets", "disabled_reason", "disabled_at", "disabled_by"),
)

FIND_APPLICATION = (
    f"SELECT {APPLICATIONS.columns('a')} FROM {Application._meta.db_table} a WHERE a.client_id = %(client_id)s"  # noqa: S608
)


def find(client_id: str) -> Application | None:
    """The application with this client_id, enabled or not. One statement."""
    if not client_id.isprintable():  # PostgreSQL takes no NUL
        return None
    row = fetch_one(FIND_APPLICATION, client_id=client_id)
    return None if row is None else APPLICATIONS.instance(row)


@transaction.atomic
def register(
    *, name: str, redirect_uris: list[str], homepage: str = "", is_trusted: bool = False, groups: Collection[Group] = ()
) -> tuple[Application, str]:
    """A saved application and its client secret, which is not stored.

    Raises ValidationError: the name, the homepage or a callback address can't be registered; or as `look_alikes`.
    """
    application = Application(
        name=name, redirect_uris="\n".join(redirect_uris), homepage=homepage, is_trusted=is_trusted
    )
    application.full_clean()
    look_alikes.refuse(name, is_trusted=is_trusted)
    application.save()
    if groups:
        set_groups(application, groups)
    registration_changes.registered(application)
    events.write(Event.APPLICATION_REGISTERED, client_id=application.client_id)
    return application, client_secrets.rotate(application).secret


@transaction.atomic
def set_enabled(application: Application, is_enabled: bool, *, reason: str = "") -> None:
    """Switch the application on or off and end its codes and tokens. Without a change nothing ends.

    `reason` says why it is switched off. D17. One statement, however many codes and tokens there are.
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
        audit_trail.write(event.name.lower(), registration_changes.subject(application), changes)
    disabled = ("disabled_reason", "disabled_at", "disabled_by")
    application.refresh_from_db(fields=["is_enabled", "credentials_version", "updated", *disabled])


@transaction.atomic
def set_trusted(application: Application, is_trusted: bool) -> None:
    """Sign people in to it without asking them, or ask them again. D7.

    Raises ValidationError: as `look_alikes`.
    """
    if is_trusted:
        look_alikes.refuse(application.name, is_trusted=True, besides=application.pk)
    with registration_changes.audited(application):
        application.is_trusted = is_trusted
        application.save(update_fields=["is_trusted", "updated"])
    events.write(Event.APPLICATION_CHANGED, client_id=application.client_id, fields="is_trusted")


@transaction.atomic
def set_owners(application: Application, owners: Collection[User]) -> None:
    """These administrators, and no others, look after the application from now on.

    Raises ValidationError: somebody of them can't open the administration.
    """
    if not all(person.is_staff and person.is_active for person in owners):
        raise ValidationError(_("Only people who may open the administration can be owners."))
    with registration_changes.audited(application):
        application.owners.set(owners)


@transaction.atomic
def end_access(application: Application) -> int:
    """End the application's codes, tokens and consents of everybody; it stays switched on. Returns how many consents.

    A code that is issued meanwhile is of the earlier version, and so refused.
    """
    Application.objects.filter(pk=application.pk).update(credentials_version=F("credentials_version") + 1)
    people = consents.end_all(application)
    events.write(Event.APPLICATION_ACCESS_ENDED, client_id=application.client_id)
    audit_trail.write("all_access_ended", registration_changes.subject(application), {"people": (people, None)})
    application.refresh_from_db(fields=["credentials_version"])
    return people


@transaction.atomic
def set_groups(application: Application, groups: Collection[Group]) -> None:
    """Only people in one of the groups may use the application from now on; without groups, everybody may. D23.

    Codes and tokens of others are refused at once, and accepted again if they may use it again before they expire.
    """
    with registration_changes.audited(application):
        application.is_restricted = bool(groups)
        application.save(update_fields=["is_restricted", "updated"])
        application.groups.set(groups)


@transaction.atomic
def delete(application: Application) -> None:
    """Delete the application with its secrets and consents. Its codes and tokens are invalid at once."""
    registration_changes.deleted(application)
    events.write(Event.APPLICATION_DELETED, client_id=application.client_id)
    application.delete()
