"""Read sign-ins from the table of codes. Store first profile reads there, and mark codes that nobody exchanged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.sql import as_uuid, fetch_all, fetch_one, is_postgresql
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step

if TYPE_CHECKING:
    from accounts.models import User

# A redeemed code is the record of a sign-in. People see the number of their sign-ins within this time.
REDEEMED_KEPT_FOR = timedelta(days=30)
MOST_LOOKED_THROUGH = 20_000
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

ProfileRead = tuple[UUID, UUID]  # the attempt of the token and the person; one attempt may belong to two people

CODES = AuthorizationCode._meta.db_table
APPLICATIONS = Application._meta.db_table
# Only unredeemed codes are searched, so that somebody who found a used code cannot change the record of its sign-in.
FIND_PRESENTED = f"""
    SELECT c.attempt, c.user_id, coalesce(n.client_id, a.client_id, '')
      FROM (SELECT 1) AS always LEFT JOIN {APPLICATIONS} n ON n.client_id = %(named)s
      LEFT JOIN {CODES} c
             ON c.digest = %(digest)s AND c.redeemed_at IS NULL AND c.application_id = coalesce(n.id, c.application_id)
      LEFT JOIN {APPLICATIONS} a ON a.id = c.application_id
"""  # noqa: S608 - names of tables only
# One statement stores a batch of reads.
NOTE_READS = f"""
    UPDATE {CODES} c SET profile_read_at = r.at
      FROM unnest(%(people)s::uuid[], %(attempts)s::uuid[], %(times)s::timestamptz[]) AS r (person_id, attempt, at)
     WHERE c.user_id = r.person_id AND c.attempt = r.attempt AND c.profile_read_at IS NULL
 RETURNING c.attempt, c.user_id
"""  # noqa: S608


class SignIns(NamedTuple):
    last_at: datetime
    number: int


def sign_ins(person: User) -> dict[int, SignIns]:
    """Return the person's SignIns within REDEEMED_KEPT_FOR at each application, by the application's primary key."""
    redeemed = AuthorizationCode.objects.filter(user=person, redeemed_at__gt=timezone.now() - REDEEMED_KEPT_FOR)
    rows = redeemed.values_list("application").annotate(last_at=Max("redeemed_at"), number=Count("pk"))
    return {application_id: SignIns(last_at, number) for application_id, last_at, number in rows}


def sign_ins_by_callback(application: Application) -> dict[str, int]:
    """Return the number of the application's sign-ins within REDEEMED_KEPT_FOR, by callback address.

    Only the newest MOST_LOOKED_THROUGH codes of all applications are read, because codes have no index by application.
    """
    redeemed = _newest_codes().filter(application=application, redeemed_at__gt=timezone.now() - REDEEMED_KEPT_FOR)
    return dict(redeemed.values_list("redirect_uri").annotate(number=Count("pk")))


def _newest_codes() -> QuerySet[AuthorizationCode]:
    newest = AuthorizationCode.objects.order_by("-issued_at").values("pk")[:MOST_LOOKED_THROUGH]
    return AuthorizationCode.objects.filter(pk__in=newest)


def presented(digest: bytes, named: str) -> tuple[UUID | None, UUID | None, str]:
    """Return attempt, person and client_id of the unredeemed code with this digest (None, None and "" if unknown).

    If `named` is an application's client_id, find only its codes, and return `named` even if no code is found.
    """
    attempt, person_id, client_id = fetch_one(FIND_PRESENTED, digest=digest, named=named)
    return attempt and as_uuid(attempt), person_id and as_uuid(person_id), client_id


def last_redeemed(applications: Collection[int]) -> dict[int, datetime]:
    """Return the time of each application's last sign-in. Search only the newest MOST_LOOKED_THROUGH codes."""
    redeemed = _newest_codes().filter(application__in=applications, redeemed_at__isnull=False)
    return dict(redeemed.values_list("application").annotate(Max("redeemed_at")))


def note_profile_reads(reads: Mapping[ProfileRead, datetime]) -> list[ProfileRead]:
    """Store the time of each read that is the first for its code. Return these reads."""
    ordered = sorted(reads.items())  # all workers lock the rows in this order, so that they do not deadlock
    if is_postgresql():
        attempts, people = [attempt for (attempt, _), _ in ordered], [person for (_, person), _ in ordered]
        return fetch_all(NOTE_READS, people=people, attempts=attempts, times=[at for _, at in ordered])
    unread = AuthorizationCode.objects.filter(profile_read_at=None)
    return [
        (attempt, person)
        for (attempt, person), at in ordered
        if unread.filter(user=person, attempt=attempt).update(profile_read_at=at)
    ]


def newest(
    client_id: str,
    client_ids: Collection[str] | None,
    person_id: UUID | None,
    since: datetime | None,
    before: datetime,
    limit: int,
) -> list[AuthorizationCode]:
    """Return at most `limit` codes that fit the filters, newest first. A filter that is "" or None accepts any code."""
    codes = AuthorizationCode.objects.filter(issued_at__lt=before, issued_at__gte=since or LONG_AGO)
    if person_id:
        codes = codes.filter(user=person_id)
    if client_id or client_ids is not None:
        found = Application.objects.filter(client_id=client_id) if client_id else Application.objects.all()
        found = found if client_ids is None else found.filter(client_id__in=client_ids)
        looked_through = codes.order_by("-issued_at").values("pk")[:MOST_LOOKED_THROUGH]
        applications = list(found.values_list("pk", flat=True))
        codes = AuthorizationCode.objects.filter(pk__in=looked_through, application__in=applications)
    return _with_client_id(codes.order_by("-issued_at")[:limit])


def of_attempts(people: Collection[UUID], attempts: Collection[UUID]) -> list[AuthorizationCode]:
    return _with_client_id(AuthorizationCode.objects.filter(user__in=people, attempt__in=attempts)) if people else []


def _with_client_id(codes: QuerySet[AuthorizationCode]) -> list[AuthorizationCode]:
    application = Application.objects.filter(pk=OuterRef("application_id")).values("client_id")
    return list(codes.annotate(client_id=Coalesce(Subquery(application), Value(""))))  # type: ignore[no-redef]


def claim_never_exchanged(since: datetime, limit: int) -> tuple[int, list[AuthorizationCode]]:
    """Mark at most `limit` expired, unredeemed codes that were issued after `since`. Call this in a transaction.

    Return the number of marked codes, and the marked codes that have no record of an unsuccessful exchange.
    """
    now = timezone.now()
    # `expires_at` has no index, so `issued_at` narrows the search.
    issued_by = now - timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
    issued = AuthorizationCode.objects.filter(issued_at__gt=since, issued_at__lte=issued_by).order_by("issued_at")
    expired = issued.filter(expires_at__lte=now, redeemed_at=None, is_expiry_recorded=False)
    claimed = list(expired.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])
    codes = AuthorizationCode.objects.filter(pk__in=claimed)
    codes.update(is_expiry_recorded=True)
    is_theirs = Q(person=OuterRef("user")) | Q(person=None)  # one attempt may belong to two people
    refusals = ActivityRecord.objects.filter(is_theirs, attempt=OuterRef("attempt"), step=Step.EXCHANGE)
    return len(claimed), _with_client_id(codes.exclude(Exists(refusals.exclude(outcome=Outcome.SUCCEEDED))))
