"""Write records of the activity log within a budget. D24; specification 7.

A flood of refused requests must neither fill the table nor hide the records of other callers. So two limits bound the
records of an hour: those of one caller of an application, and those of all callers of the same kind. All unknown
client_ids together count as one application. Requests beyond a limit are only counted. New records never replace old
records, because a flood could then remove earlier records.
"""

from __future__ import annotations

import json
from enum import StrEnum
from uuid import UUID

from accounts.models import User
from config.infrastructure import rate_limits
from config.infrastructure.network import site_of
from config.infrastructure.rate_limits import Counter
from config.infrastructure.sql import fetch_one, is_postgresql
from oauth_bridge.models.activity import ActivityRecord

MOST_OF_AN_ATTEMPT = 20


class Kind(StrEnum):
    """Kinds of callers, each with a budget of its own. PROVEN: the caller sent a valid secret, code or token."""

    STRANGER = "stranger"
    PERSON = "person"
    PROVEN = "proven"


RECORDS = ActivityRecord._meta.db_table
_COLUMNS = tuple(field.attname for field in ActivityRecord._meta.concrete_fields if not field.primary_key)
# The limit MOST_OF_AN_ATTEMPT applies to each person of an attempt separately. So a stranger who opens another person's
# link cannot use up the limit of the other person. Records whose `is_proven` is false have a separate limit, because
# anybody who found a code can cause them.
_ADD = f"""
    INSERT INTO {RECORDS} ({", ".join(_COLUMNS)})
    SELECT {", ".join(f"%({name})s{'{json}' if name == 'detail' else ''}" for name in _COLUMNS)}
     WHERE (SELECT count(*) FROM (
               SELECT 1 FROM {RECORDS} WHERE attempt = %(attempt)s AND is_proven = %(is_proven)s
                  AND coalesce(CAST(person_id AS text), '') = %(person)s LIMIT {MOST_OF_AN_ATTEMPT}
           ) AS others) < {MOST_OF_AN_ATTEMPT}
       AND (%(person)s = '' OR EXISTS (SELECT 1 FROM {User._meta.db_table} WHERE id = %(person_id)s))
 RETURNING id
"""  # noqa: S608 - names of tables and columns only


def has_room(client_id: str, kind: Kind, caller: str) -> bool:
    """Count one more record. Return whether the budget of this hour allows it.

    `caller` is a network address or the primary key of a person. An IPv6 /48 network counts as one caller. The limits
    are `settings.RATES_OF_RECORDS`.
    """
    of_all = Counter("records_of_kind", f"{client_id} {kind}")
    own = Counter("records_of_caller", f"{client_id} {kind} {site_of(caller) or caller}")
    # While the wide limit is full, no counters of new callers are made.
    return not (rate_limits.exceeded(of_all) or rate_limits.count(own, of_all))


def add(record: ActivityRecord) -> None:
    """Write the record in one statement.

    If the attempt already has MOST_OF_AN_ATTEMPT records of the person, or the person is deleted meanwhile, the record
    is not written.
    """
    values = {name: getattr(record, name) for name in _COLUMNS}
    values |= {"detail": json.dumps(record.detail), "person": _as_text(record.person_id)}
    fetch_one(_ADD.format(json="::jsonb" if is_postgresql() else ""), **values)


def _as_text(person_id: UUID | None) -> str:
    """The text to which the database casts the id; empty for None."""
    return "" if person_id is None else str(person_id) if is_postgresql() else person_id.hex
