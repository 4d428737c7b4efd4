"""Administrators, permissions, and groups. A group can admit people to restricted applications and give permissions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts import audit_trail
from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.texts import refuse_control_characters

ADVICE = _("Nobody could administer the service then. Make somebody else an administrator with superuser status first.")

# The administrators who can make other people administrators.
_administrators = User.objects.filter(is_active=True, is_staff=True, is_superuser=True, invited_at=None).order_by("pk")


class LastAdministrator(Exception):
    """The change would leave nobody who can make other people administrators."""


def keep_one(leaving: Iterable[UUID] | QuerySet[User]) -> None:
    """Raises LastAdministrator if `leaving` contains all `_administrators`. Call this in a transaction."""
    if _administrators.filter(pk__in=leaving).exists():
        # Without the lock, two transactions at once could remove the last two. The fixed order avoids deadlocks.
        list(_administrators.select_for_update(no_key=True))
        if not _administrators.exclude(pk__in=leaving).exists():
            raise LastAdministrator


def offered_permissions(site: AdminSite) -> QuerySet[Permission]:
    """Return the permissions for models registered in the admin site and for the site's own pages."""
    shown = ContentType.objects.get_for_models(*filter(site.is_registered, apps.get_models()))
    own = getattr(site, "own_permissions", ())
    return Permission.objects.filter(Q(content_type__in=shown.values()) | Q(codename__in=own))


@transaction.atomic
def make(person: User, permissions: Collection[Permission]) -> int:
    """Make the person an administrator with only these permissions, or a superuser if `permissions` is empty.

    Return the number of ended ownerships of applications. Raises LastAdministrator.
    """
    if permissions:
        keep_one([person.pk])
    before = _rights(person)
    ended = end_ownerships(person) if permissions or not before["is_staff"] else 0
    User.objects.filter(pk=person.pk).update(is_staff=True, is_superuser=not permissions)
    person.user_permissions.set(permissions)
    after = _rights(person)
    audit_trail.write(
        "account_changed", audit_trail.of_person(person), {name: (before[name], after[name]) for name in before}
    )
    if after != before:
        events.write(Event.RIGHTS_CHANGED, person=person.pk)
    person.refresh_from_db(fields=["is_staff", "is_superuser"])
    return ended


def end_ownerships(person: User) -> int:
    """End all the person's ownerships of applications, and return how many. Rights given later do not restore them."""
    owned = list(person.owned_applications.values_list("client_id", "name"))
    person.owned_applications.clear()
    for client_id, name in owned:
        subject = audit_trail.Subject("application", client_id, name)
        audit_trail.write("application_changed", subject, {"owners": ([person.pk], [])})
    return len(owned)


def _rights(person: User) -> dict[str, object]:
    flags: dict[str, object] = dict(User.objects.values("is_staff", "is_superuser").get(pk=person.pk))
    return {**flags, "permissions": sorted(person.user_permissions.values_list("codename", flat=True))}


# Groups ---------------------------------------------------------------------------------------------------------------


@transaction.atomic
def change_members(group: Group, people: Collection[User], *, are_added: bool) -> None:
    if not people:
        return
    (group.user_set.add if are_added else group.user_set.remove)(*people)
    keys, names = [each.pk for each in people], [group.name]
    subjects = list(map(audit_trail.of_person, people))
    audit_trail.write_all("account_changed", subjects, {"groups": ([], names) if are_added else (names, [])})
    members = ([], keys) if are_added else (keys, [])
    audit_trail.write("group_changed", audit_trail.of_group(group), {"members": members})


def validated_groups(names: Collection[str]) -> list[str]:
    """Return the sorted names, each once; [] if all are empty. Raises ValidationError with the field "group"."""
    cleaned = sorted({name.strip() for name in names})
    if cleaned == [""]:
        return []
    for name in cleaned:
        try:
            refuse_control_characters(name)
            Group(name=name).clean_fields()
        except ValidationError as problem:
            raise ValidationError({"group": problem.messages}) from None
    return cleaned


def named_groups(names: Collection[str]) -> tuple[list[Group], list[str]]:
    """Return the groups, and the names of newly created ones. Call this in a transaction. Raises ValidationError."""
    found, made = [], []
    for name in validated_groups(names):
        group, is_new = Group.objects.get_or_create(name=name)
        found.append(group)
        if is_new:
            made.append(name)
            audit_trail.write("group_created", audit_trail.of_group(group))
    return found, made
