"""Prepare an attempt for templates: its summary, its steps, and the failure that somebody looks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from oauth_bridge.activity_causes import fix_of, name_of, needs_mending, title_of
from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.administration.shown import Named, Names, browser_of, record_url
from oauth_bridge.storage.attempts import STEPS, Attempt, Ending, Event, missing_steps

# For each ending of an attempt, the word and the CSS class of the badge.
ENDINGS = {
    Ending.SIGNED_IN: (gettext_lazy("Signed in"), "good"),
    Ending.REFUSED: (pgettext_lazy("by the person", "Refused"), ""),
    Ending.STOPPED: (gettext_lazy("Stopped"), "danger"),
    Ending.FAILED: (gettext_lazy("Failed"), "danger"),
    Ending.UNFINISHED: (gettext_lazy("Unfinished"), "warning"),
    Ending.REPLAY: (gettext_lazy("Replay"), "warning"),
    Ending.GOING_ON: (gettext_lazy("Going on"), ""),
}
# The words for a finished step in the summary of an attempt.
DONE = {
    Step.AUTHORIZE: gettext_lazy("authorize"),
    Step.SIGN_IN: gettext_lazy("signed in"),
    Step.SECOND_FACTOR: gettext_lazy("second factor"),
    Step.CONSENT: gettext_lazy("code issued"),
    Step.EXCHANGE: gettext_lazy("exchanged"),
    Step.PROFILE: gettext_lazy("profile read"),
    Step.LOGOUT: gettext_lazy("signed out"),
}
MARKS = {
    Ending.REFUSED: "no",
    Ending.STOPPED: "bad",
    Ending.FAILED: "bad",
    Ending.UNFINISHED: "unsure",
    Ending.REPLAY: "unsure",
}


class Part(NamedTuple):
    """A finished or refused step in the summary of an attempt. `mark` is the CSS class; empty if finished."""

    words: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A finished, refused or missing step of an attempt, for the template. `mark` is the CSS class of the icon."""

    step: Step
    name: str
    mark: str
    at: datetime | None
    seconds: float | None
    note: str


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """An attempt, for the template. `word` and `badge` are about its ending.

    `title`, `fix`, `mark`, `reference` and `record_url` are about the failure that somebody looks for, or else about
    the last one. `own_word` and `own_badge` are the ending of an attempt that ends with this failure. If it is a wait
    for the second factor, which ends nothing, they are `word` and `badge`.
    """

    at: datetime
    story: list[Part]
    mark: str
    word: str
    badge: str
    own_word: str
    own_badge: str
    application: Named
    person: Named
    browser: str
    address: str
    reference: str
    record_url: str
    title: str
    fix: str
    steps: list[ShownStep]
    is_fault: bool


def attempt(each: Attempt, names: Names) -> ShownAttempt:
    failure = each.chosen or each.failure
    word, badge = ENDINGS[each.ending]
    is_ending = failure and not failure.awaits_factor
    own_word, own_badge = ENDINGS[failure.ending] if failure and is_ending else (word, badge)
    entries = [event.entry for event in each.events if event.entry]
    record = failure.entry if failure else None
    return ShownAttempt(
        at=each.latest_at,
        story=_story(each),
        mark=MARKS[failure.ending] if failure else "",
        word=str(word),
        badge=badge,
        own_word=str(own_word),
        own_badge=own_badge,
        application=names.application(each.client_id),
        person=names.person(each.person_id),
        browser=next((browser_of(entry) for entry in entries if entry.browser.strip("/")), ""),
        address=next((entry.address for entry in reversed(entries) if entry.address), ""),
        reference=record.reference if record else "",
        record_url=record_url(record),
        title=title_of(failure.cause) if failure else "",
        fix=_fix(each, failure, names),
        steps=_steps(each),
        is_fault=bool(failure and needs_mending(failure.step, failure.cause)),
    )


def _runs(each: Attempt) -> list[tuple[Event, int]]:
    """The events in their order. Equal events that follow each other are one: the last of them, and their number.

    A step that waited for the person is left out if another event followed, unless somebody looks for it.
    """
    events = [
        event
        for event in each.events
        if event.outcome is not Outcome.UNFINISHED or event in (each.events[-1], each.chosen)
    ]
    runs = [list(run) for _, run in groupby(events, key=lambda event: (event.step, event.cause))]
    return [(run[-1], len(run)) for run in runs]


def _mark(each: Attempt, event: Event) -> str:
    if event.outcome is Outcome.SUCCEEDED:
        return ""
    return MARKS[event.ending] if each.matters(event) else "unsure"


def _title(event: Event, number: int) -> str:
    title = title_of(event.cause)
    if number == 1:
        return title
    text = ngettext("%(title)s (%(count)d time)", "%(title)s (%(count)d times)", number)
    return text % {"title": title, "count": number}


def _fix(each: Attempt, failure: Event | None, names: Names) -> str:
    if failure is None or each.is_past_wait:
        return ""
    return names.fix_of(failure.entry) if failure.entry else fix_of(failure.cause)


def _story(each: Attempt) -> list[Part]:
    parts = [Part(str(DONE[step])) for step in missing_steps(each) if step in each.reached]
    for event, number in _runs(each):
        if event.outcome is Outcome.SUCCEEDED:
            parts.append(Part(str(DONE[event.step])))
        else:
            title = _title(event, number)
            words = title if event.step is Step.CONSENT else f"{name_of(event.step)}: {title}"
            parts.append(Part(words, _mark(each, event)))
    first = parts[0].words
    return [parts[0]._replace(words=first[:1].upper() + first[1:]), *parts[1:]]


def _steps(each: Attempt) -> list[ShownStep]:
    """The finished and refused steps in the order of their events, and the missing ones at their places.

    If the record belongs to no attempt, the steps before it are unknown.
    """
    start, found = each.started_at, []
    for event, number in _runs(each):
        mark = _mark(each, event)
        note = _title(event, number) if mark else _note(event.step, each)
        seconds = (event.at - start).total_seconds()
        found.append(ShownStep(event.step, name_of(event.step), mark, event.at, seconds, note))
    for step in missing_steps(each):
        if each.key is None and step not in each.reached and STEPS.index(step) < STEPS.index(each.events[0].step):
            continue
        mark, note = ("", "") if step in each.reached else ("open", _("Not reached"))
        later = (place for place, shown in enumerate(found) if STEPS.index(shown.step) > STEPS.index(step))
        found.insert(next(later, len(found)), ShownStep(step, name_of(step), mark, None, None, note))
    return found


def _note(step: Step, each: Attempt) -> str:
    if step is Step.CONSENT and each.callback:
        return _("A code went to %(address)s") % {"address": each.callback.split("?")[0]}
    return ""
