"""Prepare sign-in attempts for templates: the summary, the steps, the failure, and an application's live board."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from oauth_bridge.activity.attempts import STEPS, Attempt, Ending, ending_of
from oauth_bridge.activity.causes import name_of, title_of, words_of
from oauth_bridge.administration.shown import Names, browser_of, record_url
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step

# For each ending of an attempt: the word and the CSS class of the badge, and the CSS class of the last step's icon.
ENDINGS = {
    Ending.SIGNED_IN: (gettext_lazy("Signed in"), "good", ""),
    Ending.REFUSED: (pgettext_lazy("by the person", "Refused"), "", "no"),
    Ending.STOPPED: (gettext_lazy("Stopped"), "danger", "bad"),
    Ending.FAILED: (gettext_lazy("Failed"), "danger", "bad"),
    Ending.UNFINISHED: (gettext_lazy("Unfinished"), "warning", "unsure"),
    Ending.REPLAY: (gettext_lazy("Used twice"), "warning", "unsure"),
    Ending.GOING_ON: (gettext_lazy("In progress"), "", ""),
}
# The words for a finished step in the summary of an attempt.
DONE = {
    Step.AUTHORIZE: gettext_lazy("started"),
    Step.SIGN_IN: gettext_lazy("signed in"),
    Step.SECOND_FACTOR: gettext_lazy("second factor"),
    Step.CONSENT: gettext_lazy("sent back"),
    Step.EXCHANGE: gettext_lazy("access given"),
    Step.PROFILE: gettext_lazy("profile read"),
    Step.LOGOUT: gettext_lazy("signed out"),
}


def attempt(each: Attempt, names: Names) -> dict[str, Any]:
    """The template's variables for an attempt. Those about a failure, such as `title`, are empty without a failure."""
    harmless = next((event for event in reversed(each.events) if not each.matters(event)), None)
    failure = each.chosen or each.failure or harmless
    word, badge, _mark_of_it = ENDINGS[each.ending]
    return {
        "at": each.latest_at,
        "story": _story(each),
        "mark": _mark(each, failure) if failure else "",
        "word": word,
        "badge": badge,
        "application": names.application(each.client_id),
        "person": names.person(each.person_id),
        "browser": next(filter(None, map(browser_of, each.events)), ""),
        "address": next((event.address for event in reversed(each.events) if event.address), ""),
        "reference": failure.reference if failure else "",
        "record_url": record_url(failure),
        "title": title_of(failure.cause) if failure else "",
        "fix": names.fix_of(failure) if failure else "",
        "words": words_of(failure.cause) if failure else [],
        "steps": _steps(each),
    }


def _runs(each: Attempt) -> list[tuple[ActivityRecord, int]]:
    """Return (last event, count) of each run of events with the same step and cause. Ignore events with `is_over`."""
    events = [event for event in each.events if not each.is_over(event)]
    runs = [list(run) for _, run in groupby(events, key=lambda event: (event.step, event.cause))]
    return [(run[-1], len(run)) for run in runs]


def _mark(each: Attempt, event: ActivityRecord) -> str:
    if event.outcome == Outcome.SUCCEEDED:
        return ""
    return ENDINGS[ending_of(event)][2] if each.matters(event) else "unsure"


def _title(event: ActivityRecord, number: int) -> str:
    title = title_of(event.cause)
    if number == 1:
        return title
    text = ngettext("%(title)s (%(count)d time)", "%(title)s (%(count)d times)", number)
    return text % {"title": title, "count": number}


def _story(each: Attempt) -> list[tuple[str, str]]:
    """The summary of an attempt: words and a CSS class for each step so far. The class of a finished step is empty."""
    parts = [(str(DONE[step]), "") for step in each.missing if step in each.reached]
    for event, number in _runs(each):
        if event.outcome == Outcome.SUCCEEDED:
            parts.append((str(DONE[Step(event.step)]), ""))
        else:
            title = _title(event, number)
            words = title if event.step == Step.CONSENT else f"{name_of(event.step)}: {title}"
            parts.append((words, _mark(each, event)))
    (first, mark), *rest = parts
    return [(first[:1].upper() + first[1:], mark), *rest]


def _steps(each: Attempt) -> list[dict[str, Any]]:
    """The template's variables for each step, by time. Steps without an event are inserted in the order of STEPS."""
    first, found = each.events[0], []
    for event, number in _runs(each):
        mark = _mark(each, event)
        note = _title(event, number) if mark else ""
        if event.step == Step.CONSENT and not mark and each.callback:
            note = _("Sent back to %(address)s with a one-time code") % {"address": each.callback.split("?")[0]}
        minutes, seconds = divmod(int((event.at - first.at).total_seconds()), 60)
        since = f"+ {minutes}:{seconds:02}" if event.at > first.at else ""
        found.append(_step(Step(event.step), mark, note) | {"at": event.at, "since": since})
    for step in each.missing:
        if each.key is None and step not in each.reached and STEPS.index(step) < STEPS.index(Step(first.step)):
            continue  # nothing is known about the steps before a single record
        mark, note = ("", "") if step in each.reached else ("open", _("Not reached"))
        later = (place for place, shown in enumerate(found) if STEPS.index(shown["step"]) > STEPS.index(step))
        found.insert(next(later, len(found)), _step(step, mark, note))
    return found


def _step(step: Step, mark: str, note: str) -> dict[str, Any]:
    return {"step": step, "name": name_of(step), "mark": mark, "note": note, "at": None}


# The board of an application: the steps of its latest attempt, as they happen -----------------------------------------

# After its last event, an attempt stays on the board for this time. A page with a board reloads itself for this time.
LASTS = timedelta(minutes=15)
# For each step that every sign-in has: the heading of the board if it is the last step so far, and an explanation.
BOARD: dict[Step, tuple[Any, Any]] = {
    Step.AUTHORIZE: (
        gettext_lazy("%(name)s has begun a sign-in"),
        gettext_lazy("Its link leads a person here, who signs in."),
    ),
    Step.CONSENT: (
        gettext_lazy("%(name)s got the person back"),
        gettext_lazy("The person allows it, and goes back to it with a one-time code."),
    ),
    Step.EXCHANGE: (
        gettext_lazy("%(name)s came as far as the access"),
        gettext_lazy("It proves who it is, and gets access for the code."),
    ),
    Step.PROFILE: (gettext_lazy("%(name)s came as far as the profile"), gettext_lazy("It reads who signed in.")),
}
# The steps that not every sign-in has. The board shows each as a part of another step.
PART_OF = {Step.SIGN_IN: Step.AUTHORIZE, Step.SECOND_FACTOR: Step.AUTHORIZE}


def board(application: Application, attempts: Sequence[Attempt], names: Names) -> dict[str, Any]:
    """The template's variables for the board: the steps of the latest sign-in, unless it is older than LASTS."""
    signing_in = (each for each in attempts if {event.step for event in each.events} != {Step.LOGOUT})
    found = next((each for each in signing_in if timezone.now() - each.latest_at < LASTS), None)
    latest = attempt(found, names) if found else None
    cells = {step: _step(step, "open", "") for step in BOARD}
    for shown in latest["steps"] if latest else ():
        if (step := PART_OF.get(shown["step"], shown["step"])) in cells:
            cells[step] = shown | {"name": name_of(step)}
    for step, cell in cells.items():
        if cell["mark"] in ("", "open"):
            cell["note"] = BOARD[step][1]
    return {
        "heading": _heading(found) % {"name": application.name},
        "steps": cells.values(),
        "latest": latest,
        "client_id": application.client_id,
        "callbacks": application.callback_addresses,
    }


def _heading(latest: Attempt | None) -> str:
    if latest is None:
        return _("Waiting for %(name)s")
    if Step.PROFILE in latest.reached:
        return _("%(name)s works: it signed somebody in")
    met = latest.reached | {event.step for event in latest.events}
    return str(BOARD[next((step for step in reversed(BOARD) if step in met), Step.AUTHORIZE)][0])
