"""Registered applications: find, register, enable. Specification 2.1; D15, D17.

The only writer of their rows except the form of Django admin.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts import audit_trail
from config.infrastructure import events
from config.infrastructure.errors import RequestError
from config.infrastructure.events import Event
from config.infrastructure.sql import Rows, fetch_one
from oauth_bridge.models import Application
from oauth_bridge.storage import client_secrets, look_alikes, registration_changes

APPLICATIONS = Rows(Application, without=("updated", "last_secret_number", "leaked_secrets"))

FIND_APPLICATION = (
    f"SELECT {APPLICATIONS.columns('a')} FROM {Application._meta.db_table} a WHERE a.client_id = %(client_id)s"  # noqa: S608
)


def find(client_id: str) -> Application | None:
    """The application with this client_id, enabled or not. One statement."""
    if not client_id.isprintable():  # PostgreSQL takes no NUL
        return None
    row = fetch_one(FIND_APPLICATION, client_id=client_id)
    return None if row is None else APPLICATIONS.instance(row)


def explain_unknown(error: RequestError, client_id: str) -> None:
    """Add to the error, privately, that the application of this client_id was deleted, if it was. One statement."""
    if client_id.isprintable():
        registration_changes.explain_unknown(error, client_id)


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
def set_enabled(application: Application, is_enabled: bool) -> None:
    """Switch the application on or off and end its codes and tokens. Without a change nothing ends.

    D17. One statement, however many codes and tokens there are.
    """
    changed = Application.objects.filter(pk=application.pk).exclude(is_enabled=is_enabled)
    if changed.update(is_enabled=is_enabled, credentials_version=F("credentials_version") + 1, updated=timezone.now()):
        event = Event.APPLICATION_SWITCHED_ON if is_enabled else Event.APPLICATION_SWITCHED_OFF
        events.write(event, client_id=application.client_id)
        audit_trail.write(event.name.lower(), registration_changes.subject(application))
    application.refresh_from_db(fields=["is_enabled", "credentials_version", "updated"])


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
