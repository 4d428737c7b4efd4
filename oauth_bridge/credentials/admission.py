"""Who may use an application: everybody, or only the people in its groups.

The rule is checked whenever a code is redeemed or a token is read. So a person's codes and tokens become invalid when
the person leaves the last of these groups. The groups apply only if the application's `is_restricted` is true. When all
groups are deleted, `is_restricted` stays true, and nobody may use the application.

The statements for unrestricted applications do not name the tables of groups. A condition on these tables would add 25
µs, a fifth of the statement's time, even if PostgreSQL never evaluated the condition.
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

FOR_EVERYBODY = "NOT a.is_restricted"


def _membership(application_id: str, person_id: str) -> str:
    """A subquery that returns a row if the person is in one of the application's groups. The arguments are SQL.

    Qualify columns with their table: a bare `user_id` would mean a column of this subquery.
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
    """The SQL condition that the application with the alias `a` admits the person. `person_id`: a qualified column."""
    return f"({FOR_EVERYBODY} OR EXISTS ({_membership('a.id', person_id)}))"


def is_member(person_id: UUID | str, application_id: int) -> bool:
    """Return whether the person is in one of the application's groups. One SQL statement."""
    return fetch_one(FIND_MEMBER, person_id=person_id, application_id=application_id) is not None


def shared_groups(person_id: UUID | str, application_id: int) -> list[str]:
    """The names of the application's groups that the person belongs to. One SQL statement."""
    return [name for (name,) in fetch_all(SHARED_GROUPS, person_id=person_id, application_id=application_id)]


def is_admitted(person: User, application: Application) -> bool:
    """Return whether the person may use the application. For a restricted one, runs one SQL statement."""
    return not application.is_restricted or is_member(person.pk, application.pk)
