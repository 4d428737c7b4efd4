"""Begin and end sign-ins at applications, and find the applications to notify. Back-Channel Logout 1.0.

An application knows each sign-in by its `sid`. Only this module writes rows of `ApplicationSession`; `purging` deletes
rows. A sign-out changes no row. `end_gone` later ends the rows whose browser session or person no longer exists.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django.contrib.auth import get_user_model
from django.db.models import F
from django.utils import timezone

from accounts.models import Session
from config.infrastructure import work_queue
from config.infrastructure.sql import as_uuid, fetch_all, fetch_one, is_postgresql
from oauth_bridge.models import Application, ApplicationSession
from oauth_bridge.storage.issued_codes import CODES

if TYPE_CHECKING:
    from accounts.models import User

TABLE = ApplicationSession._meta.db_table
SESSIONS = Session._meta.db_table
PEOPLE = get_user_model()._meta.db_table
APPLICATIONS = Application._meta.db_table

# How long an ended row is kept. The row shows whether the application was notified.
KEPT_FOR = timedelta(days=7)
# `end_gone` skips applications that get no sign-out notices. `purge` deletes a row of such an application this time
# after the sign-in, if the browser session is gone.
KEPT_UNTOLD_FOR = timedelta(days=1)
# One call of `end_gone` ends at most this number of rows, so that its statements stay within their time limit.
ENDED_AT_ONCE = 5_000

TOLD = f"SELECT id FROM {APPLICATIONS} WHERE backchannel_logout_uri <> ''"  # noqa: S608 - names of tables only
# `consents.disconnect` deletes the code first and ends the sign-ins last. So `begin` stores the sign-in as ended if the
# code is gone. If `begin` and `disconnect` run at the same time, the lock makes one of them wait for the other. SQLite
# needs a WHERE before ON CONFLICT.
_BEGIN = f"""
      WITH code AS (SELECT id FROM {CODES} WHERE id = %(code_id)s {{lock}}),
           ended AS (SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM code) THEN %(now)s END AS at)
    INSERT INTO {TABLE} (id, sign_in, user_id, application_id, person_version, made_at, turn, attempts,
                         ended_at, due_at)
    SELECT %(sid)s, %(sign_in)s, %(user_id)s, %(application_id)s, %(person_version)s, %(now)s, 0, 0, at,
           CASE WHEN %(application_id)s IN ({TOLD}) THEN at END
      FROM ended WHERE 1 = 1
    ON CONFLICT (application_id, sign_in, person_version) WHERE ended_at IS NULL
       DO UPDATE SET sign_in = excluded.sign_in
 RETURNING id
"""  # noqa: S608 - names of tables only

BEGIN = _BEGIN.format(lock="")
BEGIN_AND_LOCK = _BEGIN.format(lock="FOR KEY SHARE")

# The condition of a sign-in that has not ended: the browser session exists and is not expired, the person is active,
# and the version of the person's credentials is the same.
LIVES = f"""
    EXISTS (SELECT 1 FROM {SESSIONS} s JOIN {PEOPLE} u ON u.id = s.user_id
             WHERE s.sign_in = {TABLE}.sign_in AND s.expire_date > %(now)s
               AND u.is_active AND u.credentials_version = {TABLE}.person_version)
"""  # noqa: S608
GONE = f"""
    SELECT id FROM {TABLE}
     WHERE ended_at IS NULL AND NOT {LIVES}
       AND application_id IN ({TOLD})
     LIMIT %(most)s
"""  # noqa: S608
# The condition for `purge`: the browser session is gone, and the application gets no notices.
FORGOTTEN = f"""
    ended_at IS NULL AND made_at <= %(made)s AND application_id NOT IN ({TOLD})
      AND NOT EXISTS (SELECT 1 FROM {SESSIONS} s WHERE s.sign_in = {TABLE}.sign_in)
"""  # noqa: S608


def begin(sign_in: str, *, code_id: int, person_id: UUID, application_id: int, person_version: int) -> str:
    """The `sid` of this sign-in for the application. The `sid` stays the same until the sign-in ends. One statement.

    If the person has disconnected the application since the redemption, the sign-in is stored as ended, and the
    application is notified.
    """
    row = fetch_one(
        BEGIN_AND_LOCK if is_postgresql() else BEGIN,
        code_id=code_id,
        sid=uuid4(),
        sign_in=UUID(sign_in),
        user_id=person_id,
        application_id=application_id,
        person_version=person_version,
        now=timezone.now(),
    )
    return str(as_uuid(row[0]))


def end_gone() -> int:
    """End at most ENDED_AT_ONCE sign-ins that are over, and return their number.

    Sign-ins at applications that get no sign-out notices are skipped.

    A sign-in is over if its browser session is gone or expired, or its person is inactive, deleted, or has a new
    password. Two statements, or one if no sign-in is over.
    """
    now = timezone.now()
    gone = [as_uuid(key) for (key,) in fetch_all(GONE, now=now, most=ENDED_AT_ONCE)]
    if gone:
        ApplicationSession.objects.filter(pk__in=gone, ended_at=None).update(ended_at=now, due_at=now)
    return len(gone)


def end(application: Application, person: User | None = None) -> None:
    """End all sign-ins of the application or, with `person`, only the sign-ins of this person."""
    now = timezone.now()
    rows = ApplicationSession.objects.filter(application=application, ended_at=None)
    if person:
        rows = rows.filter(user=person)
    rows.update(ended_at=now, due_at=now if application.backchannel_logout_uri else None)


def claim(lease: timedelta, besides: Collection[int] = ()) -> ApplicationSession | None:
    """Claim a row whose notice is due now. Applications in `besides` are skipped. None: no notice is due."""
    return work_queue.claim(ApplicationSession.objects.exclude(application_id__in=besides), lease)


def told(row: ApplicationSession) -> None:
    ApplicationSession.objects.filter(pk=row.pk).update(told_at=timezone.now(), due_at=None)


def give_up(row: ApplicationSession) -> None:
    ApplicationSession.objects.filter(pk=row.pk).update(due_at=None)


def tell_later(row: ApplicationSession, due_at: datetime) -> None:
    """Postpone the notice until `due_at`. Nothing changes if another process has claimed the row meanwhile."""
    rows = ApplicationSession.objects.filter(pk=row.pk, attempts=row.attempts)
    rows.update(due_at=due_at, turn=F("turn") + 1)


def waiting() -> dict[str, Any]:
    """The number of unsent notices, and the time at which the first of their sign-ins ended."""
    rows = ApplicationSession.objects.filter(due_at__isnull=False).order_by("ended_at")
    return {"number": rows.count(), "oldest": rows.values_list("ended_at", flat=True).first()}
