"""The waiting page of an application. The page shows each step of a new sign-in when it happens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.activity_titles import title_of
from oauth_bridge.administration import shown, shown_attempts
from oauth_bridge.administration.activity import time_of
from oauth_bridge.administration.application_acts import find_application
from oauth_bridge.administration.shown import Names
from oauth_bridge.applications.rights import ACTIVITY
from oauth_bridge.models import Application
from oauth_bridge.storage import attempts
from oauth_bridge.storage.attempts import Attempt

LASTS = timedelta(minutes=15)
# Successful sign-ins and profile reads are written once a second; all other events are visible at once.
LOOKS_EVERY_SECONDS = 1
LOOKS_WITHOUT_SCRIPT_SECONDS = 2  # the browser reloads the whole page
TRIES = 10


class Column(NamedTuple):
    """A column of the page. The column combines the `steps` of an attempt."""

    steps: tuple[Step, ...]
    name: Any
    explanation: Any


COLUMNS = [
    Column(
        (Step.AUTHORIZE, Step.SIGN_IN, Step.SECOND_FACTOR),
        gettext_lazy("Authorize"),
        gettext_lazy("Its link leads a person here, who signs in."),
    ),
    Column((Step.CONSENT,), gettext_lazy("Callback"), gettext_lazy("The person allows it, and a code goes to it.")),
    Column((Step.EXCHANGE,), gettext_lazy("Exchange"), gettext_lazy("It exchanges the code for an access token.")),
    Column((Step.PROFILE,), gettext_lazy("Profile"), gettext_lazy("It reads the profile with its token.")),
]


class Ticked(NamedTuple):
    """A column, for the latest attempt.

    `mark` is "" (finished), "bad" (failed), "unsure" (waits for the person) or "open" (not reached).
    """

    name: Any
    mark: str
    at: datetime | None
    text: Any


def waiting(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the sign-ins since the time `since` in the query.

    Without a valid time, redirect to this page with the present time as `since`.

    The page stops reloading after LASTS.

    Raises PermissionDenied, Http404: as `find_application`.
    """
    found = find_application(request, pk, ACTIVITY)
    now = timezone.now()
    since = time_of(request.GET.get("since", ""))
    if since is None or not now - timedelta(days=1) < since <= now:
        return redirect(shown.page("waiting", pk, since=now.isoformat()))
    tries = attempts.attempts(shown.filters(request, found, since), limit=TRIES)
    names = Names(request, [found.client_id], (each.person_id for each in tries))
    latest = tries[0] if tries else None
    is_over = now - since > LASTS or "stop" in request.GET
    context = {
        **admin.site.each_context(request),
        "title": _heading(found, latest),
        "application": shown.named(found),
        "client_id": found.client_id,
        "columns": _columns(latest),
        "latest": shown_attempts.attempt(latest, names) if latest else None,
        "earlier": [shown_attempts.attempt(each, names) for each in tries[1:]],
        "since": since,
        "until": since + LASTS,
        "now": now,
        "is_over": is_over,
        "seconds": LOOKS_EVERY_SECONDS,
        "seconds_without_script": LOOKS_WITHOUT_SCRIPT_SECONDS,
        "stop_url": shown.page("waiting", pk, since=since.isoformat(), stop=1),
        "callbacks": found.callback_addresses,
    }
    return TemplateResponse(request, "administration/waiting.html", context)


def _heading(found: Application, latest: Attempt | None) -> str:
    if latest is None:
        text = _("Waiting for %(name)s")
    elif Step.PROFILE in latest.reached:
        text = _("%(name)s works: it signed somebody in")
    else:
        place = max((place for place, column in enumerate(COLUMNS) if _is_in(latest, column)), default=0)
        text = [
            _("%(name)s has begun a sign-in"),
            _("%(name)s came as far as the callback"),
            _("%(name)s came as far as the exchange"),
            _("%(name)s came as far as the profile"),
        ][place]
    return text % {"name": found.name}


def _is_in(latest: Attempt, column: Column) -> bool:
    return bool(latest.reached & set(column.steps)) or any(event.step in column.steps for event in latest.events)


def _columns(latest: Attempt | None) -> list[Ticked]:
    found = []
    for column in COLUMNS:
        events = [event for event in latest.events if event.step in column.steps] if latest else []
        failure = latest.failure if latest else None
        if failure and failure.step in column.steps:
            found.append(Ticked(column.name, "bad", failure.at, title_of(failure.cause)))
        elif latest and (last := latest.events[-1]).outcome is Outcome.UNFINISHED and last.step in column.steps:
            found.append(Ticked(column.name, "unsure", last.at, title_of(last.cause)))
        elif latest and latest.reached & set(column.steps):
            done = [event.at for event in events if event.outcome is Outcome.SUCCEEDED]
            found.append(Ticked(column.name, "", done[-1] if done else None, column.explanation))
        else:
            found.append(Ticked(column.name, "open", None, column.explanation))
    return found
