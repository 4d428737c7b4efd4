"""Make people administrators, set their permissions, and make sure that an administrator remains.

Every function that deletes, deactivates or demotes an administrator calls `keep_one`. P16.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts import audit_trail
from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event

# REQUIRED names the columns that are true for an administrator who can make other people administrators.
REQUIRED = ("is_active", "is_staff", "is_superuser")
ADVICE = _("Nobody could administer the service then. Make somebody else an administrator with superuser status first.")

_administrators = User.objects.filter(**dict.fromkeys(REQUIRED, True)).order_by("pk")


class LastAdministrator(Exception):
    """No administrator would remain."""


def keep_one(leaving: Collection[UUID] | QuerySet[User]) -> None:
    """Check that an administrator remains if the people in `leaving` are deleted, deactivated or demoted.

    The rows of all administrators stay locked until the transaction ends, so two simultaneous transactions cannot
    remove the last two. Raises LastAdministrator: no administrator would remain.
    """
    are_locked = list(_administrators.select_for_update(no_key=True).values_list("pk"))
    if are_locked and not _administrators.exclude(pk__in=leaving).exists():
        raise LastAdministrator


def offered_permissions(site: AdminSite) -> QuerySet[Permission]:
    """Return the permissions for the models that are registered in the admin site, and for its own pages."""
    shown = ContentType.objects.get_for_models(*filter(site.is_registered, apps.get_models()))
    own = getattr(site, "own_permissions", ())
    return Permission.objects.filter(Q(content_type__in=shown.values()) | Q(codename__in=own))


@transaction.atomic
def make(person: User, permissions: Collection[Permission]) -> int:
    """Make the person an administrator with only these permissions, or a superuser if `permissions` is empty.

    Returns the number of applications that the person does not own any more. Raises LastAdministrator: the person is
    the last administrator with superuser status, and would lose this status.
    """
    if permissions:
        keep_one([person.pk])
    with audit_trail.changes("account_changed", audit_trail.of_person(person), lambda: _rights(person)):
        before = _rights(person)
        ended = end_ownerships(person) if permissions or not before["is_staff"] else 0
        User.objects.filter(pk=person.pk).update(is_staff=True, is_superuser=not permissions)
        person.user_permissions.set(permissions)
        if _rights(person) != before:
            events.write(Event.RIGHTS_CHANGED, person=person.pk)
    person.refresh_from_db(fields=["is_staff", "is_superuser"])
    return ended


def end_ownerships(person: User) -> int:
    """End what the person owns, so that a later right does not bring it back. Returns the number of applications.

    Call this in the transaction that changes `is_staff` in either direction, takes `is_superuser` away, or sets the
    permissions exactly.
    """
    owned = list(person.owned_applications.values_list("client_id", "name"))
    person.owned_applications.clear()
    for client_id, name in owned:
        subject = audit_trail.Subject("application", client_id, name)
        audit_trail.write("application_changed", subject, {"owners": ([person.pk], [])})
    return len(owned)


def _rights(person: User) -> dict[str, object]:
    flags: dict[str, object] = dict(User.objects.values("is_staff", "is_superuser").get(pk=person.pk))
    return {**flags, "permissions": sorted(person.user_permissions.values_list("codename", flat=True))}
