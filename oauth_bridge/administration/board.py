"""The board of an application: the steps of its latest attempt, shown as they happen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from oauth_bridge.activity.attempts import Attempt
from oauth_bridge.activity.causes import title_of
from oauth_bridge.administration import shown_attempts
from oauth_bridge.administration.shown import Names
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Outcome, Step

# An attempt is on the board, and a page looks again by itself, for this time.
LASTS = timedelta(minutes=15)


class Column(NamedTuple):
    """A column of the board, which combines the `steps` of an attempt. `reached`: the heading if it is the last one."""

    steps: tuple[Step, ...]
    name: Any
    explanation: Any
    reached: Any


COLUMNS = [
    Column(
        (Step.AUTHORIZE, Step.SIGN_IN, Step.SECOND_FACTOR),
        gettext_lazy("Authorize"),
        gettext_lazy("Its link leads a person here, who signs in."),
        gettext_lazy("%(name)s has begun a sign-in"),
    ),
    Column(
        (Step.CONSENT,),
        gettext_lazy("Callback"),
        gettext_lazy("The person allows it, and a code goes to it."),
        gettext_lazy("%(name)s came as far as the callback"),
    ),
    Column(
        (Step.EXCHANGE,),
        gettext_lazy("Exchange"),
        gettext_lazy("It exchanges the code for an access token."),
        gettext_lazy("%(name)s came as far as the exchange"),
    ),
    Column(
        (Step.PROFILE,),
        gettext_lazy("Profile"),
        gettext_lazy("It reads the profile with its token."),
        gettext_lazy("%(name)s came as far as the profile"),
    ),
]


class Ticked(NamedTuple):
    """A column, for the latest attempt.

    `mark` is "" (finished), "bad" (failed), "unsure" (waits for the person) or "open" (not reached).
    """

    name: Any
    mark: str
    at: datetime | None
    text: Any


def of(application: Application, attempts: Sequence[Attempt], names: Names) -> dict[str, Any]:
    """The template's variables for the first of the attempts. An attempt older than LASTS is not shown."""
    is_recent = bool(attempts) and timezone.now() - attempts[0].latest_at < LASTS
    latest = attempts[0] if is_recent else None
    return {
        "heading": _heading(latest) % {"name": application.name},
        "columns": [_ticked(column, latest) for column in COLUMNS],
        "latest": shown_attempts.attempt(latest, names) if latest else None,
        "client_id": application.client_id,
        "callbacks": application.callback_addresses,
    }


def _heading(latest: Attempt | None) -> str:
    if latest is None:
        return _("Waiting for %(name)s")
    if Step.PROFILE in latest.reached:
        return _("%(name)s works: it signed somebody in")
    met = latest.reached | {event.step for event in latest.events}
    return str(next((column.reached for column in COLUMNS[::-1] if met & {*column.steps}), COLUMNS[0].reached))


def _ticked(column: Column, latest: Attempt | None) -> Ticked:
    if latest is None:
        return Ticked(column.name, "open", None, column.explanation)
    failure = latest.failure
    if failure and failure.step in column.steps:
        mark = "unsure" if failure.outcome == Outcome.UNFINISHED else "bad"
        return Ticked(column.name, mark, failure.at, title_of(failure.cause))
    if not latest.reached & {*column.steps}:
        return Ticked(column.name, "open", None, column.explanation)
    done = [each.at for each in latest.events if each.step in column.steps and each.outcome == Outcome.SUCCEEDED]
    return Ticked(column.name, "", done[-1] if done else None, column.explanation)
