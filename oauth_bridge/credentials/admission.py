"""Who may use an application: only the people in its groups if its `is_restricted` is true, otherwise everybody.

Each redemption and each read of a token checks this rule. A restricted application without groups admits nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from oauth_bridge.models import Application

if TYPE_CHECKING:
    from accounts.models import User

CHOSEN = Application.groups.through
MEMBERS = get_user_model().groups.through


def admits(person_id: str) -> str:
    """Return an SQL condition: the application `a` admits the person. `person_id`: an SQL column, such as `u.id`."""
    return f"""(NOT a.is_restricted OR EXISTS (
                SELECT 1 FROM {CHOSEN._meta.db_table} chosen
                  JOIN {MEMBERS._meta.db_table} member ON member.group_id = chosen.group_id
                 WHERE chosen.application_id = a.id AND member.user_id = {person_id}))"""  # noqa: S608


def shared_groups(person_id: UUID, application_id: int) -> QuerySet[Group]:
    chosen = CHOSEN._default_manager.filter(application_id=application_id).values("group_id")
    return Group.objects.filter(user=person_id, pk__in=chosen)


def is_admitted(person: User, application: Application) -> bool:
    return not application.is_restricted or shared_groups(person.pk, application.pk).exists()
