"""Django's groups: find or make groups by name, and exclude groups with permissions. D23.

A group decides who may use an application, and may also give permissions for the administration. Only a superuser puts
people into groups with permissions, takes them out, or gives a group permissions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from accounts import audit_trail
from config.infrastructure.validators import refuse_control_characters

FIELD = "group"


def without_permissions() -> QuerySet[Group]:
    """The groups into which every administrator of people may put people."""
    return Group.objects.filter(permissions=None)


class Named(NamedTuple):
    """Groups, and which of them are new because no group had the name."""

    groups: list[Group]
    made: list[str]


def validated(names: Collection[str]) -> list[str]:
    """The names without repetitions, in order. A single empty name means no group.

    Raises ValidationError, for the field "group": a name is too long, has a control character, or is empty although
    there are other names.
    """
    cleaned = sorted({name.strip() for name in names})
    if cleaned == [""]:
        return []
    for name in cleaned:
        if not name:
            raise ValidationError({FIELD: "An empty name means no group, so it can't be given beside others."})
        try:
            refuse_control_characters(name)
            Group(name=name).clean_fields()
        except ValidationError as problem:
            raise ValidationError({FIELD: problem.messages}) from None
    return cleaned


def named(names: Collection[str]) -> Named:
    """The groups with these names, for a command. Missing groups are made, without permissions.

    Call this in a transaction. Raises ValidationError: as `validated`.
    """
    found, made = [], []
    for name in validated(names):
        group, is_new = Group.objects.get_or_create(name=name)
        found.append(group)
        if is_new:
            made.append(name)
            audit_trail.write("group_created", audit_trail.of_group(group))
    return Named(found, made)
