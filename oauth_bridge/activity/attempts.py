"""Read attempts to sign in. The events of an attempt come from activity records and from the row of its code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.db.models import F, Q, Window
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
# A search for attempts reads the newest LOOKED_THROUGH records. Of each attempt and person, it uses at most
# RECORDS_PER_ATTEMPT, so that an attempt with many records does not fill the list.
RECORDS_PER_ATTEMPT = 4
LOOKED_THROUGH = 5_000
# Of each attempt and person, the newest MOST_SHOWN records are shown, and the records that a search found.
MOST_SHOWN = 20
# 1 for the newest record of an attempt and person, 2 for the one before.
PLACE = Window(RowNumber(), partition_by=[F("attempt"), F("person")], order_by=F("id").desc())

# An attempt, and the person whose steps are shown; for a record without an attempt, None and its primary key.
_Key = tuple[UUID | None, UUID | int | None]


class Ending(StrEnum):
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
    """Return the ending that `event` gives to its attempt. `event` must not be a success."""
    if event.outcome == Outcome.UNFINISHED:
        return Ending.UNFINISHED
    at_application = event.step in (Step.EXCHANGE, Step.PROFILE)
    return ENDINGS.get(event.cause) or (Ending.FAILED if at_application else Ending.STOPPED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to sign in, or a single record without an attempt (`key` is None). `events` are ordered by time."""

    key: UUID | None
    events: list[ActivityRecord]
    client_id: str
    person_id: UUID | None
    callback: str = ""  # the callback address of the code
    looked_for: Collection[int] = ()  # primary keys: what a search found, or the record given to `of`

    @property
    def latest_at(self) -> datetime:
        return self.events[-1].at

    @property
    def chosen(self) -> ActivityRecord | None:
        """The latest event in `looked_for` that is neither a success nor over (`is_over`), or None."""
        own = (event for event in reversed(self.events) if event.pk in self.looked_for)
        failures = (event for event in own if event.outcome != Outcome.SUCCEEDED and not self.is_over(event))
        return next(failures, None)

    @property
    def failure(self) -> ActivityRecord | None:
        """The last event that `matters`, or None if this event is a success."""
        last = [event for event in self.events if self.matters(event)][-1]
        return None if last.outcome == Outcome.SUCCEEDED else last

    def matters(self, event: ActivityRecord) -> bool:
        """Return whether the event may change the ending. Of exchanges after a successful exchange only replays may."""
        if event.step != Step.EXCHANGE or event.cause == SPENT:  # a replay revokes the token
            return True
        done = (each for each in self.events if each.step == Step.EXCHANGE and each.outcome == Outcome.SUCCEEDED)
        exchanged = next(done, event)
        return event is exchanged or event.at < exchanged.at

    def is_over(self, event: ActivityRecord) -> bool:
        """Return whether the event waited for the person and another event followed."""
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
        """The steps that succeeded. If `key` is set, an event of a later step proves that AUTHORIZE succeeded."""
        done = {Step(event.step) for event in self.events if event.outcome == Outcome.SUCCEEDED}
        if self.key and any(event.step != Step.AUTHORIZE for event in self.events):
            done.add(Step.AUTHORIZE)
        return done

    @property
    def missing(self) -> list[Step]:
        """The steps without an event, except sign-in, second factor and sign-out, which many attempts lack."""
        met = {event.step for event in self.events} | {Step.SIGN_IN, Step.SECOND_FACTOR, Step.LOGOUT}
        return [step for step in STEPS if step not in met]


def attempts(filters: Filters, *, before: datetime | None = None, limit: int = 20) -> list[Attempt]:
    """Return the latest `limit` attempts with a record or code that fits `filters` and is older than `before`."""
    before = before or timezone.now()
    newest = records(filters).filter(at__lt=before).values("pk")[:LOOKED_THROUGH]
    found = ActivityRecord.objects.filter(pk__in=newest).annotate(place=PLACE)
    found = found.filter(Q(attempt=None) | Q(place__lte=RECORDS_PER_ATTEMPT)).order_by("-at", "-id")
    rows = list(found[: limit * RECORDS_PER_ATTEMPT])
    codes = []
    person_id = filters.person_id or person_with(filters.who)
    is_search = filters.cause or filters.step or filters.reference or filters.is_failure
    if not is_search and (person_id or not filters.who):
        only = filters.client_id, filters.client_ids, person_id, filters.since
        codes = code_history.newest(*only, before, limit)
    looked_for = {row.pk for row in rows} if is_search else set()
    return _combined(rows, codes, filters.client_ids, looked_for)[:limit]


def of(record: ActivityRecord, client_ids: Collection[str] | None = None) -> Attempt:
    return _combined([record], [], client_ids, {record.pk})[0]


def _combined(
    found: Sequence[ActivityRecord],
    codes: list[AuthorizationCode],
    client_ids: Collection[str] | None,
    looked_for: Collection[int],
) -> list[Attempt]:
    """Return the attempts of `found` and `codes`, latest first. Each has its newest MOST_SHOWN records and its `found`.

    If `client_ids` is given, leave out events of other applications, such as an application that sent a stolen code.
    """
    keys = {record.attempt for record in found if record.attempt} | {code.attempt for code in codes}
    siblings = records(Filters(client_ids=client_ids)).filter(attempt__in=keys).annotate(place=PLACE)
    by_id = {record.pk: record for record in (*siblings.filter(place__lte=MOST_SHOWN), *found)}
    all_records = [by_id[key] for key in sorted(by_id)]
    # The search for codes needs the people, because the index for attempts begins with the person.
    people = {record.person_id for record in all_records if record.person_id}
    others = code_history.of_attempts(people, keys)
    all_codes = {*codes, *(code for code in others if client_ids is None or code.client_id in client_ids)}
    code_of: dict[_Key, AuthorizationCode] = {(code.attempt, code.user_id): code for code in all_codes}
    # If one person of an attempt is known, its records without a person are this person's.
    pairs = {*code_of, *((record.attempt, record.person_id) for record in all_records if record.person_id)}
    people_of = Counter(attempt for attempt, _ in pairs)
    sole = {attempt: person for attempt, person in pairs if people_of[attempt] == 1}

    def key_of(record: ActivityRecord) -> _Key:
        return (record.attempt, record.person_id or sole.get(record.attempt)) if record.attempt else (None, record.pk)

    events: defaultdict[_Key, list[ActivityRecord]] = defaultdict(list)
    for record in all_records:
        events[key_of(record)].append(record)
    for key, code in code_of.items():
        events[key] += _events_of(code)
    wanted = {key_of(record) for record in found} | {(code.attempt, code.user_id) for code in codes}
    each = [_attempt(events[key], code_of.get(key), looked_for) for key in wanted]
    return sorted(each, key=lambda attempt: (attempt.latest_at, str(attempt.key)), reverse=True)


def _events_of(code: AuthorizationCode) -> list[ActivityRecord]:
    times = {Step.CONSENT: code.issued_at, Step.EXCHANGE: code.redeemed_at, Step.PROFILE: code.profile_read_at}
    common = {"attempt": code.attempt, "person_id": code.user_id, "client_id": code.client_id}
    return [ActivityRecord(at=at, step=step, outcome=Outcome.SUCCEEDED, **common) for step, at in times.items() if at]


def _attempt(events: list[ActivityRecord], code: AuthorizationCode | None, looked_for: Collection[int]) -> Attempt:
    events = sorted(events, key=lambda event: (event.at, STEPS.index(Step(event.step))))
    return Attempt(
        events[0].attempt,
        events,
        client_id=next((event.client_id for event in events if event.client_id), ""),
        person_id=code.user_id if code else next((event.person_id for event in events if event.person_id), None),
        callback=code.redirect_uri if code else "",
        looked_for=looked_for,
    )
