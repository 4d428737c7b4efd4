"""Django's groups: found or made by name, and which of them give permissions. D23.

A group says who may use an application, and may carry permissions for the administration as well. Only a superuser puts
people into groups with permissions, takes them out, or gives a group permissions.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from config.infrastructure.validators import refuse_control_characters

FIELD = "group"


def without_permissions() -> QuerySet[Group]:
    """The groups that every administrator of people may put people into."""
    return Group.objects.filter(permissions=None)


def named(names: Collection[str]) -> list[Group]:
    """The groups with these names, for a command. One that does not exist is made, without permissions.

    An empty name alone stands for no group. Run it in a transaction.
    Raises ValidationError, for the field "group": a name is too long, has a control character, or is empty beside
    others.
    """
    if [name.strip() for name in names] == [""]:
        return []
    return [_named(name.strip()) for name in names]


def _named(name: str) -> Group:
    if not name:
        raise ValidationError({FIELD: "An empty name means no group, so it can't be given beside others."})
    try:
        refuse_control_characters(name)
        Group(name=name).clean_fields()
    except ValidationError as problem:
        raise ValidationError({FIELD: problem.messages}) from None
    group, _created = Group.objects.get_or_create(name=name)
    return group
