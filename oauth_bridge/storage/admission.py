"""Who may use an application: everybody, or people in groups that were chosen for it. D23.

The rule is applied whenever a code is redeemed or a token is read, so whoever leaves the last of the groups has no
valid code and no valid token from then on. `is_restricted` of the application says whether the groups count. It stays
true when they are deleted: then nobody may use the application.

The statements for applications that are for everybody do not name the tables of groups. A condition on them would cost
25 µs each time, a fifth more than the statement, even where PostgreSQL never evaluates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from config.infrastructure.sql import fetch_all, fetch_one
from oauth_bridge.models import Application

if TYPE_CHECKING:
    from accounts.models import User

CHOSEN = Application.groups.through._meta.db_table
MEMBERS = get_user_model().groups.through._meta.db_table

# The condition for an application `a`, where nobody needs to be a member.
FOR_EVERYBODY = "NOT a.is_restricted"


def _membership(application_id: str, person_id: str) -> str:
    """A row if the person is in one of the application's groups. The arguments are SQL.

    Give a column with the name of its table: `user_id` alone would be a column of this statement's own table.
    """
    return f"""SELECT 1 FROM {CHOSEN} chosen JOIN {MEMBERS} member ON member.group_id = chosen.group_id
                     WHERE chosen.application_id = {application_id} AND member.user_id = {person_id}"""  # noqa: S608


FIND_MEMBER = f"{_membership('%(application_id)s', '%(person_id)s')} LIMIT 1"
SHARED_GROUPS = f"""
    SELECT g.name
      FROM {Group._meta.db_table} g JOIN {CHOSEN} c ON c.group_id = g.id JOIN {MEMBERS} m ON m.group_id = g.id
     WHERE c.application_id = %(application_id)s AND m.user_id = %(person_id)s ORDER BY g.name
"""  # noqa: S608


def admits(person_id: str) -> str:
    """The condition for any application `a`. `person_id` is a column with the name of its table."""
    return f"({FOR_EVERYBODY} OR EXISTS ({_membership('a.id', person_id)}))"


def is_member(person_id: UUID | str, application_id: int) -> bool:
    """Whether the person is in one of the groups that were chosen for the application. One statement."""
    return fetch_one(FIND_MEMBER, person_id=person_id, application_id=application_id) is not None


def shared_groups(person_id: UUID | str, application_id: int) -> list[str]:
    """The names of those of the person's groups that were chosen for the application. One statement."""
    return [name for (name,) in fetch_all(SHARED_GROUPS, person_id=person_id, application_id=application_id)]


def is_admitted(person: User, application: Application) -> bool:
    """Whether the person may use the application. One statement for a restricted application, none for others."""
    return not application.is_restricted or is_member(person.pk, application.pk)
