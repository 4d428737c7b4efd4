"""Read attempts to sign in: combine the records and codes of an attempt into its steps. D8, D24."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from config.infrastructure import references
from oauth_bridge.activity_causes import FACTOR_AWAITED, NEVER_EXCHANGED, WAITING
from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.models import Application
from oauth_bridge.storage import issued_codes
from oauth_bridge.storage.activity_reading import Entry, Filters, newest, recorded, records
from oauth_bridge.storage.issued_codes import IssuedCode

STEPS = list(Step)
# An attempt without a new event for this time is unfinished.
OVER_AFTER = timedelta(hours=1)
# An attempt may have several records. So this number of records is read for each wanted attempt.
RECORDS_PER_ATTEMPT = 4
# At most this number of records is shown for an attempt of one person.
MOST_SHOWN = 20

# The key of an attempt, and the person whose steps are shown.
_Key = tuple[UUID | None, UUID | None]


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
ENDINGS = {
    "refused": Ending.REFUSED,
    SPENT: Ending.REPLAY,
    NEVER_EXCHANGED: Ending.UNFINISHED,
    **dict.fromkeys(WAITING, Ending.UNFINISHED),
}


class Event(NamedTuple):
    """An event of a step. `entry` is the record of the event; None if the row of a code proves the event."""

    step: Step
    at: datetime
    outcome: Outcome
    cause: str = ""
    entry: Entry | None = None

    @property
    def awaits_factor(self) -> bool:
        return self.cause == FACTOR_AWAITED

    @property
    def ending(self) -> Ending:
        """How an attempt ends if this failure is its last event."""
        at_application = self.step in (Step.EXCHANGE, Step.PROFILE)
        return ENDINGS.get(self.cause) or (Ending.FAILED if at_application else Ending.STOPPED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt, from the application's link to the profile. `key` is None for a record that belongs to no attempt.

    `chosen` is the failure that somebody looks for: the last one that fits the filters, or that of a record.
    """

    key: UUID | None
    events: list[Event]
    client_id: str
    person_id: UUID | None
    callback: str = ""  # the callback address of the code
    reached: frozenset[Step] = field(default_factory=frozenset)
    chosen: Event | None = None

    @property
    def started_at(self) -> datetime:
        return self.events[0].at

    @property
    def latest_at(self) -> datetime:
        return self.events[-1].at

    @property
    def failure(self) -> Event | None:
        """The last event that matters, if it is a failure. A person has OVER_AFTER for the second factor."""
        last = [event for event in self.events if self.matters(event)][-1]
        is_awaited = last.awaits_factor and timezone.now() - last.at < OVER_AFTER
        return None if last.outcome is Outcome.SUCCEEDED or is_awaited else last

    @property
    def is_past_wait(self) -> bool:
        """Whether `chosen` is a wait for the second factor that another event followed."""
        return bool(self.chosen and self.chosen.awaits_factor and self.chosen is not self.events[-1])

    def matters(self, event: Event) -> bool:
        """Return whether the event may change the ending.

        After the exchange, another exchange is refused and revokes nothing, unless it is a replay (D13).
        """
        if event.step is not Step.EXCHANGE or event.cause == SPENT:
            return True
        done = (each for each in self.events if each.step is Step.EXCHANGE and each.outcome is Outcome.SUCCEEDED)
        exchanged = next(done, event)
        return event is exchanged or event.at < exchanged.at

    @property
    def ending(self) -> Ending:
        if failure := self.failure:
            return failure.ending
        if self.reached & {Step.EXCHANGE, Step.PROFILE} or not self.client_id:
            return Ending.SIGNED_IN
        return Ending.GOING_ON if timezone.now() - self.latest_at < OVER_AFTER else Ending.UNFINISHED


def attempts(filters: Filters, *, before: datetime | None = None, limit: int = 20) -> list[Attempt]:
    """The attempts with a record or code that fits the filters, the latest first. Five statements.

    If two people opened the same link, each person has an attempt.
    """
    before = before or timezone.now()
    rows = newest(records(filters).filter(at__lt=before), limit * RECORDS_PER_ATTEMPT)
    entries = [recorded(row) for row in rows]
    is_of_records = filters.cause or filters.step or filters.reference or filters.who
    codes = [] if is_of_records else _newest(filters, before, limit)
    found = _put_together(entries, codes, filters.client_ids)[:limit]
    return [replace(each, chosen=_chosen(each, filters)) for each in found]


def _chosen(each: Attempt, filters: Filters) -> Event | None:
    if not (filters.cause or filters.step or filters.reference):
        return None
    reference = references.normalised(filters.reference)
    fitting = (
        event
        for event in reversed(each.events)
        if event.outcome is not Outcome.SUCCEEDED
        and (not event.awaits_factor or filters.cause or filters.reference)
        and filters.cause in ("", event.cause)
        and filters.step in ("", event.step)
        and reference in ("", event.entry.reference if event.entry else "")
    )
    return next(fitting, None)


def _newest(filters: Filters, before: datetime, limit: int) -> list[IssuedCode]:
    return issued_codes.newest(filters.client_id, filters.client_ids, filters.person_id, filters.since, before, limit)


def of(entry: Entry, client_ids: Collection[str] | None = None) -> Attempt:
    """The attempt that the record belongs to. `client_ids` has the same meaning as in `Filters`."""
    found = _put_together([entry], [], client_ids)[0]
    own = next(event for event in found.events if event.entry and event.entry.id == entry.id)
    return found if own.outcome is Outcome.SUCCEEDED else replace(found, chosen=own)


def _put_together(entries: list[Entry], codes: list[IssuedCode], client_ids: Collection[str] | None) -> list[Attempt]:
    """Combine records and codes into attempts.

    `client_ids` excludes records of other applications. An attempt has such a record if another application sent a
    stolen code.
    """
    keys = {entry.attempt for entry in entries if entry.attempt} | {code.attempt for code in codes}
    all_entries = _entries_of(keys, client_ids, also=entries)
    all_codes = _codes_of(keys, all_entries, codes)
    if client_ids is not None:
        seen = set(Application.objects.filter(client_id__in=client_ids).values_list("pk", flat=True))
        all_codes = [code for code in all_codes if code.application_id in seen]
    names = dict(
        Application.objects.filter(pk__in={code.application_id for code in all_codes}).values_list("pk", "client_id")
    )
    sole = _sole_people(all_entries, all_codes)
    events: defaultdict[_Key, list[Event]] = defaultdict(list)
    for entry in all_entries:
        events[_key(entry, sole)].append(_event(entry))
    code_of: dict[_Key, IssuedCode] = {(code.attempt, code.user_id): code for code in all_codes}
    for key, code in code_of.items():
        events[key] += _events_of(code)
    wanted = {_key(entry, sole) for entry in entries if entry.attempt}
    wanted |= {(code.attempt, code.user_id) for code in codes}
    found = [_attempt(key[0], events[key], code_of.get(key), names) for key in wanted if events[key]]
    found += [_attempt(None, [_event(entry)], None, names) for entry in entries if not entry.attempt]
    return sorted(found, key=attrgetter("latest_at"), reverse=True)


def _entries_of(keys: Collection[UUID], client_ids: Collection[str] | None, also: list[Entry]) -> list[Entry]:
    """The newest MOST_SHOWN records of each attempt and person, and the first of theirs in `also`, the oldest first."""
    place = Window(RowNumber(), partition_by=[F("attempt"), F("person")], order_by=F("id").desc())
    rows = records(Filters(client_ids=client_ids)).filter(attempt__in=keys)
    rows = rows.annotate(place=place).filter(place__lte=MOST_SHOWN)
    first = {(entry.attempt, entry.person_id): entry for entry in reversed(also) if entry.attempt}
    found = {entry.id: entry for entry in first.values()} | {row.pk: recorded(row) for row in rows}
    return [found[key] for key in sorted(found)]


def _sole_people(entries: Iterable[Entry], codes: Iterable[IssuedCode]) -> dict[UUID | None, UUID]:
    """The person of each attempt with only one known person.

    The records of the attempt that name no person are assigned to this person.
    """
    people: defaultdict[UUID | None, set[UUID]] = defaultdict(set)
    for entry in entries:
        if entry.person_id:
            people[entry.attempt].add(entry.person_id)
    for code in codes:
        people[code.attempt].add(code.user_id)
    return {attempt: min(known) for attempt, known in people.items() if len(known) == 1}


def _key(entry: Entry, sole: dict[UUID | None, UUID]) -> _Key:
    return entry.attempt, entry.person_id or sole.get(entry.attempt)


def _codes_of(keys: Collection[UUID], entries: Iterable[Entry], known: Iterable[IssuedCode]) -> list[IssuedCode]:
    """The codes of the attempts: the known codes, and the codes of the people in the records.

    The search needs the people, because the index for attempts begins with the person.
    """
    people = {entry.person_id for entry in entries if entry.person_id}
    return list({*known, *issued_codes.of_attempts(people, keys)})


def _event(entry: Entry) -> Event:
    return Event(Step(entry.step), entry.at, Outcome(entry.outcome), entry.cause, entry)


def _events_of(code: IssuedCode) -> list[Event]:
    """The events that the row of the code proves."""
    events = [Event(Step.CONSENT, code.issued_at, Outcome.SUCCEEDED)]
    if code.redeemed_at:
        events.append(Event(Step.EXCHANGE, code.redeemed_at, Outcome.SUCCEEDED))
    if code.profile_read_at:
        events.append(Event(Step.PROFILE, code.profile_read_at, Outcome.SUCCEEDED))
    return events


def _attempt(key: UUID | None, events: list[Event], code: IssuedCode | None, names: dict[int, str]) -> Attempt:
    events = sorted(events, key=lambda event: (event.at, STEPS.index(event.step)))
    entries = [event.entry for event in events if event.entry]
    return Attempt(
        key,
        events,
        client_id=next((entry.client_id for entry in entries if entry.client_id), "")
        or (names.get(code.application_id, "") if code else ""),
        person_id=code.user_id if code else next((entry.person_id for entry in entries if entry.person_id), None),
        callback=code.redirect_uri if code else "",
        reached=_reached(events, is_known=bool(code or key)),
    )


def _reached(events: list[Event], *, is_known: bool) -> frozenset[Step]:
    """The finished steps. An event of a later step of a known attempt proves that the step AUTHORIZE was finished."""
    done = {event.step for event in events if event.outcome is Outcome.SUCCEEDED}
    if is_known and any(event.step is not Step.AUTHORIZE for event in events):
        done.add(Step.AUTHORIZE)
    return frozenset(done)


def missing_steps(attempt: Attempt) -> list[Step]:
    """The steps without an event. `Attempt.reached` contains those that were finished without a record.

    Sign-in and second factor are left out, because not every attempt has these steps. A sign-out belongs to no attempt.
    """
    optional = {Step.SIGN_IN, Step.SECOND_FACTOR, Step.LOGOUT}
    return [step for step in Step if step not in optional and all(event.step is not step for event in attempt.events)]
