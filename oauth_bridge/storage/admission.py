"""Who may use an application: everybody, or people in groups that were chosen for it. D23.

The rule is a condition of every statement that redeems a code or reads a token, so whoever leaves the last of the
groups has no valid code and no valid token from then on. `is_restricted` answers for everybody's applications before
the tables of groups are read. It stays true when the groups are deleted: then nobody may use the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from oauth_bridge.models import Application

if TYPE_CHECKING:
    from accounts.models import User

CHOSEN = Application.groups.through._meta.db_table
MEMBERS = get_user_model().groups.through._meta.db_table


def admits(application: str, person_id: str) -> str:
    """The condition in SQL: `application` is the alias of its row, `person_id` the expression for a primary key.

    `person_id` needs the name of its table: inside, `user_id` alone is the member's.
    """
    return f"""(NOT {application}.is_restricted OR EXISTS (
                    SELECT 1 FROM {CHOSEN} chosen JOIN {MEMBERS} member ON member.group_id = chosen.group_id
                     WHERE chosen.application_id = {application}.id AND member.user_id = {person_id}))"""  # noqa: S608


def is_admitted(person: User, application: Application) -> bool:
    """Whether the person may use the application. One statement for a restricted application, none for others."""
    return not application.is_restricted or application.groups.filter(user=person.pk).exists()
