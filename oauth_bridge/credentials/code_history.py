"""Find sign-ins, first reads of profiles and never-exchanged codes among the issued codes.

`codes` issues the codes, and `credentials.code_redemption` redeems the codes.
"""

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
CLAIM = f"""
      WITH expired AS MATERIALIZED (
           SELECT id FROM {CODES}
            WHERE issued_at > %(since)s AND issued_at <= %(issued_by)s AND expires_at <= %(now)s
              AND redeemed_at IS NULL AND NOT is_expiry_recorded
            ORDER BY issued_at {{skip}})
    UPDATE {CODES} SET is_expiry_recorded = true WHERE id IN (SELECT id FROM expired) RETURNING id
"""  # noqa: S608
# One statement stores a batch of reads.
NOTE_READS = f"""
    UPDATE {CODES} c SET profile_read_at = r.at
      FROM unnest(%(people)s::uuid[], %(attempts)s::uuid[], %(times)s::timestamptz[]) AS r (person_id, attempt, at)
     WHERE c.user_id = r.person_id AND c.attempt = r.attempt AND c.profile_read_at IS NULL
 RETURNING c.user_id, c.attempt
"""  # noqa: S608


class SignIns(NamedTuple):
    """A person's sign-ins to one application. Each redeemed code is a sign-in."""

    last_at: datetime
    number: int


class IssuedCode(NamedTuple):
    """An issued code and its attempt. `client_id` is empty if the application is deleted."""

    attempt: UUID
    client_id: str
    user_id: UUID
    redirect_uri: str
    issued_at: datetime
    expires_at: datetime
    redeemed_at: datetime | None
    profile_read_at: datetime | None


class NeverExchanged(NamedTuple):
    """A code that expired unredeemed. `client_id` is empty if the application is deleted."""

    client_id: str
    person_id: UUID
    attempt: UUID
    expired_at: datetime


def sign_ins(person: User) -> dict[int, SignIns]:
    """The person's sign-ins within REDEEMED_KEPT_FOR, by the primary key of the application. One SQL statement."""
    redeemed = AuthorizationCode.objects.filter(user=person, redeemed_at__gt=timezone.now() - REDEEMED_KEPT_FOR)
    rows = redeemed.values_list("application").annotate(last_at=Max("redeemed_at"), number=Count("pk"))
    return {application_id: SignIns(last_at, number) for application_id, last_at, number in rows}


def sign_ins_by_callback(application: Application) -> dict[str, int]:
    """The number of sign-ins by callback address, among the newest codes of all applications, for lack of an index."""
    redeemed = _newest_codes().filter(application=application, redeemed_at__gt=timezone.now() - REDEEMED_KEPT_FOR)
    return dict(redeemed.values_list("redirect_uri").annotate(number=Count("pk")))


def _newest_codes() -> QuerySet[AuthorizationCode]:
    newest = AuthorizationCode.objects.order_by("-issued_at").values("pk")[:MOST_LOOKED_THROUGH]
    return AuthorizationCode.objects.filter(pk__in=newest)


class Presented(NamedTuple):
    attempt: UUID | None
    person_id: UUID | None
    client_id: str


def presented(digest: bytes, named: str) -> Presented:
    """`client_id`: `named` or, if that is unknown, the code's. The rest: of the client's unredeemed code, or None."""
    attempt, person_id, client_id = fetch_one(FIND_PRESENTED, digest=digest, named=named)
    return Presented(attempt and as_uuid(attempt), person_id and as_uuid(person_id), client_id)


def last_redeemed(applications: Collection[int]) -> dict[int, datetime]:
    """The time of each application's last sign-in among the newest codes, by the application's primary key."""
    redeemed = _newest_codes().filter(application__in=applications, redeemed_at__isnull=False)
    return dict(redeemed.values_list("application").annotate(Max("redeemed_at")))


class ProfileRead(NamedTuple):
    """A read of a profile: the attempt of the token, and the person. One attempt may belong to two people."""

    attempt: UUID
    person_id: UUID


def note_profile_reads(reads: Mapping[ProfileRead, datetime]) -> list[ProfileRead]:
    """Store the times of these profile reads. Returns only the reads that are the first of their attempt.

    On PostgreSQL, one statement locks the rows in the order of the attempts. All workers use this order, so that they
    do not deadlock.
    """
    ordered = sorted(reads.items())
    if is_postgresql():
        people, attempts = [read.person_id for read, _ in ordered], [read.attempt for read, _ in ordered]
        rows = fetch_all(NOTE_READS, people=people, attempts=attempts, times=[at for _, at in ordered])
        return [ProfileRead(attempt, person_id) for person_id, attempt in rows]
    unread = AuthorizationCode.objects.filter(profile_read_at=None)
    return [
        read
        for read, at in ordered
        if unread.filter(user=read.person_id, attempt=read.attempt).update(profile_read_at=at)
    ]


def newest(
    client_id: str,
    client_ids: Collection[str] | None,
    person_id: UUID | None,
    since: datetime | None,
    before: datetime,
    limit: int,
) -> list[IssuedCode]:
    """The newest codes that fit the filters ("", None: any). By application: among the last MOST_LOOKED_THROUGH."""
    codes = AuthorizationCode.objects.filter(issued_at__lt=before, issued_at__gte=since or LONG_AGO)
    if person_id:
        codes = codes.filter(user=person_id)
    if client_id or client_ids is not None:
        found = Application.objects.filter(client_id=client_id) if client_id else Application.objects.all()
        found = found if client_ids is None else found.filter(client_id__in=client_ids)
        looked_through = codes.order_by("-issued_at").values("pk")[:MOST_LOOKED_THROUGH]
        applications = list(found.values_list("pk", flat=True))
        codes = AuthorizationCode.objects.filter(pk__in=looked_through, application__in=applications)
    return _described(codes.order_by("-issued_at")[:limit])


def of_attempts(people: Collection[UUID], attempts: Collection[UUID]) -> list[IssuedCode]:
    return _described(AuthorizationCode.objects.filter(user__in=people, attempt__in=attempts)) if people else []


def _described(codes: QuerySet[AuthorizationCode]) -> list[IssuedCode]:
    application = Application.objects.filter(pk=OuterRef("application_id")).values("client_id")
    rows = codes.annotate(client_id=Coalesce(Subquery(application), Value("")))
    return [IssuedCode(*row) for row in rows.values_list(*IssuedCode._fields)]


def claim_never_exchanged(since: datetime) -> list[NeverExchanged]:
    """Mark the codes that were issued after `since` and expired unredeemed. No other worker gets them.

    Returns the marked codes without a refused exchange, which has a record already. Call this in a transaction.
    """
    now = timezone.now()
    issued_by = now - timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
    skip = "FOR UPDATE SKIP LOCKED" if is_postgresql() else ""
    rows = fetch_all(CLAIM.format(skip=skip), since=since, issued_by=issued_by, now=now)
    codes = AuthorizationCode.objects.filter(pk__in=[key for (key,) in rows])
    is_theirs = Q(person=OuterRef("user")) | Q(person=None)  # one attempt may belong to two people
    refusals = ActivityRecord.objects.filter(is_theirs, attempt=OuterRef("attempt"), step=Step.EXCHANGE)
    codes = codes.exclude(Exists(refusals.exclude(outcome=Outcome.SUCCEEDED)))
    found = list(codes.values_list("application_id", "user_id", "attempt", "expires_at"))
    names = dict(Application.objects.filter(pk__in={row[0] for row in found}).values_list("pk", "client_id"))
    return [NeverExchanged(names.get(application, ""), *rest) for application, *rest in found]  # type: ignore[arg-type]
