"""Read attempts to sign in: combine the records and codes of an attempt into its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from uuid import UUID

from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.activity.reading import Filters, person_with, records
from oauth_bridge.credentials import code_history
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step

STEPS = list(Step)
# An attempt without a new event for this time is unfinished.
OVER_AFTER = timedelta(hours=1)
# An attempt may have several records. To find attempts, at most this number of each is read, among LOOKED_THROUGH.
# So an attempt with very many records hides no other.
RECORDS_PER_ATTEMPT = 4
LOOKED_THROUGH = 5_000
# At most this number of records is shown for an attempt of one person.
MOST_SHOWN = 20

# An attempt, and the person whose steps are shown; for a record without an attempt, None and its primary key.
_Key = tuple[UUID | None, UUID | int | None]


class Ending(StrEnum):
    """How an attempt ended. GOING_ON: the attempt has not ended."""

    SIGNED_IN = "signed_in"
    REFUSED = "refused"  # the person said no
    STOPPED = "stopped"  # the person saw an error page of this service
    FAILED = "failed"  # the application's own request was refused
    UNFINISHED = "unfinished"  # the next step is missing
    REPLAY = "replay"  # the code was used again
    GOING_ON = "going_on"


SPENT = "code_spent"
ENDINGS = {"refused": Ending.REFUSED, SPENT: Ending.REPLAY, NEVER_EXCHANGED: Ending.UNFINISHED}


def ending_of(event: ActivityRecord) -> Ending:
    """How an attempt ends if this event, which is no success, is its last one."""
    if event.outcome == Outcome.UNFINISHED:
        return Ending.UNFINISHED
    at_application = event.step in (Step.EXCHANGE, Step.PROFILE)
    return ENDINGS.get(event.cause) or (Ending.FAILED if at_application else Ending.STOPPED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt, from the application's link to the profile. `key` is None for a record that belongs to no attempt.

    `events` are in order of time. An event that only the row of a code proves has no primary key. `chosen` is the
    failure to show: the last one that fits the filters of `attempts`, or the record that `of` gets; None without one.
    """

    key: UUID | None
    events: list[ActivityRecord]
    client_id: str
    person_id: UUID | None
    callback: str = ""  # the callback address of the code
    chosen: ActivityRecord | None = None

    @property
    def latest_at(self) -> datetime:
        return self.events[-1].at

    @property
    def failure(self) -> ActivityRecord | None:
        """The last event that `matters`; None if this event is a success."""
        last = [event for event in self.events if self.matters(event)][-1]
        return None if last.outcome == Outcome.SUCCEEDED else last

    def matters(self, event: ActivityRecord) -> bool:
        """Return whether the event may change the ending.

        A refused exchange after the successful one changes nothing, except a replay, which revokes the token.
        """
        if event.step != Step.EXCHANGE or event.cause == SPENT:
            return True
        done = (each for each in self.events if each.step == Step.EXCHANGE and each.outcome == Outcome.SUCCEEDED)
        exchanged = next(done, event)
        return event is exchanged or event.at < exchanged.at

    def is_over(self, event: ActivityRecord) -> bool:
        """Return whether the event says that a step waits for the person, and another event followed."""
        return event.outcome == Outcome.UNFINISHED and event is not self.events[-1]

    @property
    def ending(self) -> Ending:
        if failure := self.failure:
            return ending_of(failure)
        if self.reached & {Step.EXCHANGE, Step.PROFILE} or not self.client_id:
            return Ending.SIGNED_IN
        return Ending.GOING_ON if timezone.now() - self.latest_at < OVER_AFTER else Ending.UNFINISHED

    @property
    def reached(self) -> set[Step]:
        """The finished steps. An event of a later step of an attempt proves that the step AUTHORIZE was finished."""
        done = {Step(event.step) for event in self.events if event.outcome == Outcome.SUCCEEDED}
        if self.key and any(event.step != Step.AUTHORIZE for event in self.events):
            done.add(Step.AUTHORIZE)
        return done

    @property
    def missing(self) -> list[Step]:
        """The steps without an event. A step among them may be finished all the same; `reached` contains such steps.

        Sign-in and second factor are left out, because not every attempt has these steps. A sign-out belongs to no
        attempt.
        """
        met = {event.step for event in self.events} | {Step.SIGN_IN, Step.SECOND_FACTOR, Step.LOGOUT}
        return [step for step in STEPS if step not in met]


def attempts(filters: Filters, *, before: datetime | None = None, limit: int = 20) -> list[Attempt]:
    """At most `limit` attempts with a record or code earlier than `before` that fits the filters, the latest first.

    If two people opened the same link, each person has an attempt. Runs four SQL statements, more with `who`.
    """
    before = before or timezone.now()
    rows = _newest_of_attempts(records(filters).filter(at__lt=before), limit * RECORDS_PER_ATTEMPT)
    codes = []
    person_id = filters.person_id or person_with(filters.who)
    is_search = filters.cause or filters.step or filters.reference or filters.is_failure
    if not is_search and (person_id or not filters.who):
        found = filters.client_id, filters.client_ids, person_id, filters.since
        codes = code_history.newest(*found, before, limit)
    looked_for = {row.pk for row in rows} if is_search else set()
    return [_with_chosen(each, looked_for) for each in _combined(rows, codes, filters.client_ids)[:limit]]


def of(record: ActivityRecord, client_ids: Collection[str] | None = None) -> Attempt:
    """The attempt that the record belongs to. `client_ids` has the same meaning as in `Filters`."""
    (found,) = _combined([record], [], client_ids)
    return _with_chosen(found, {record.pk})


def _with_chosen(each: Attempt, looked_for: Collection[int]) -> Attempt:
    """The attempt, with `chosen` set to the last failure among its records whose primary keys are in `looked_for`."""
    own = (event for event in reversed(each.events) if event.pk in looked_for)
    failures = (event for event in own if event.outcome != Outcome.SUCCEEDED and not each.is_over(event))
    return replace(each, chosen=next(failures, None))


def _combined(
    found: list[ActivityRecord], codes: list[AuthorizationCode], client_ids: Collection[str] | None
) -> list[Attempt]:
    """Combine records and codes, and all others of the same attempts, into attempts. Return the latest attempt first.

    `client_ids` excludes records of other applications. An attempt has such a record if another application sent a
    stolen code.
    """
    keys = {record.attempt for record in found if record.attempt} | {code.attempt for code in codes}
    all_records = _with_siblings(found, keys, client_ids)
    # The search for codes needs the people, because the index for attempts begins with the person.
    people = {record.person_id for record in all_records if record.person_id}
    siblings = code_history.of_attempts(people, keys)
    all_codes = {*codes, *(code for code in siblings if client_ids is None or code.client_id in client_ids)}
    sole = _sole_people(all_records, all_codes)

    def key_of(record: ActivityRecord) -> _Key:
        return (record.attempt, record.person_id or sole.get(record.attempt)) if record.attempt else (None, record.pk)

    code_of: dict[_Key, AuthorizationCode] = {(code.attempt, code.user_id): code for code in all_codes}
    events: defaultdict[_Key, list[ActivityRecord]] = defaultdict(list)
    for record in all_records:
        events[key_of(record)].append(record)
    for key, code in code_of.items():
        events[key] += _events_of(code)
    wanted = {key_of(record) for record in found} | {(code.attempt, code.user_id) for code in codes}
    each = [_attempt(events[key], code_of.get(key)) for key in wanted]
    return sorted(each, key=attrgetter("latest_at"), reverse=True)


def _newest_of_attempts(rows: QuerySet[ActivityRecord], limit: int) -> list[ActivityRecord]:
    """The newest `limit` rows, with at most RECORDS_PER_ATTEMPT rows of the same attempt and person."""
    place = Window(RowNumber(), partition_by=[F("attempt"), F("person")], order_by=F("id").desc())
    found = ActivityRecord.objects.filter(pk__in=rows.values("pk")[:LOOKED_THROUGH]).annotate(place=place)
    return list(found.filter(Q(attempt=None) | Q(place__lte=RECORDS_PER_ATTEMPT)).order_by("-at", "-id")[:limit])


def _with_siblings(
    found: list[ActivityRecord], keys: Collection[UUID], client_ids: Collection[str] | None
) -> list[ActivityRecord]:
    """The records `found`, and of each attempt in `keys` the newest MOST_SHOWN of each person; all by ascending id."""
    place = Window(RowNumber(), partition_by=[F("attempt"), F("person")], order_by=F("id").desc())
    siblings = records(Filters(client_ids=client_ids)).filter(attempt__in=keys).annotate(place=place)
    all_records = {record.pk: record for record in (*siblings.filter(place__lte=MOST_SHOWN), *found)}
    return [all_records[key] for key in sorted(all_records)]


def _sole_people(found: Iterable[ActivityRecord], codes: Iterable[AuthorizationCode]) -> dict[UUID | None, UUID]:
    """Map each attempt with one known person to this person, who also gets the attempt's records without a person."""
    people: defaultdict[UUID | None, set[UUID]] = defaultdict(set)
    for record in found:
        if record.person_id:
            people[record.attempt].add(record.person_id)
    for code in codes:
        people[code.attempt].add(code.user_id)
    return {attempt: min(known) for attempt, known in people.items() if len(known) == 1}


def _events_of(code: AuthorizationCode) -> list[ActivityRecord]:
    """The events that the row of the code proves, as unsaved records."""
    times = {Step.CONSENT: code.issued_at, Step.EXCHANGE: code.redeemed_at, Step.PROFILE: code.profile_read_at}
    common = {"attempt": code.attempt, "person_id": code.user_id, "client_id": code.client_id}
    return [ActivityRecord(at=at, step=step, outcome=Outcome.SUCCEEDED, **common) for step, at in times.items() if at]


def _attempt(events: list[ActivityRecord], code: AuthorizationCode | None) -> Attempt:
    events = sorted(events, key=lambda event: (event.at, STEPS.index(Step(event.step))))
    return Attempt(
        events[0].attempt,
        events,
        client_id=next((event.client_id for event in events if event.client_id), ""),
        person_id=code.user_id if code else next((event.person_id for event in events if event.person_id), None),
        callback=code.redirect_uri if code else "",
    )
