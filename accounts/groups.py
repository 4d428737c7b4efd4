"""Find or make Django's groups by name, and list the groups without permissions. D23.

A group decides who may use an application, and may also give permissions for the administration. Only a superuser may
give permissions to a group, or add or remove members of a group that has permissions.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from accounts import audit_trail
from config.infrastructure.texts import refuse_control_characters

FIELD = "group"


def without_permissions() -> QuerySet[Group]:
    """Return the groups whose members may also be chosen by administrators who are not superusers."""
    return Group.objects.filter(permissions=None)


def validated(names: Collection[str]) -> list[str]:
    """Return the names in alphabetical order, without repetitions. A single empty name means no group.

    Raises ValidationError for the field "group": a name is too long, contains a control character, or is empty in a
    list with other names.
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


def named(names: Collection[str]) -> tuple[list[Group], list[str]]:
    """For a command, return the groups with the given names, and the names of new groups, without permissions.

    Call this in a transaction. Raises the ValidationError of `validated`.
    """
    found, made = [], []
    for name in validated(names):
        group, is_new = Group.objects.get_or_create(name=name)
        found.append(group)
        if is_new:
            made.append(name)
            audit_trail.write("group_created", audit_trail.of_group(group))
    return found, made
