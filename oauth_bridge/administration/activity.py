"""The activity page: the attempts to sign in, latest first. It has filters, such as person, application and cause."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from accounts.email_addresses import looked_up_email
from oauth_bridge.activity import attempts, statistics
from oauth_bridge.activity.attempts import Attempt
from oauth_bridge.activity.causes import fix_of, name_of, needs_mending, title_of
from oauth_bridge.activity.reading import Filters
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import rights, shown, shown_attempts
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE
from oauth_bridge.administration.shown import Names
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Step

PERIODS = {"1": gettext_lazy("24 hours"), "7": gettext_lazy("7 days"), "30": gettext_lazy("30 days")}
SHOWS = {"": gettext_lazy("All"), "failed": gettext_lazy("Failed")}
ATTEMPTS = 20
MOST_CAUSES = 6  # causes that are links above the list


class Query:
    """The query parameters. Only administrators who may see people or all activity can filter by e-mail address."""

    def __init__(self, request: HttpRequest) -> None:
        get = request.GET.get
        self.client_ids = rights.client_ids(request)
        self.client_id = get("client_id", "")
        self.cause = get("cause", "")
        self.step = get("step", "") if get("step") in list(Step) else ""
        self.who = looked_up_email(get("who", "")) or get("who", "").strip()
        if "@" in self.who and self.client_ids is not None and not request.user.has_perm(PEOPLE):
            self.who = ""
        self.reference = get("reference", "")
        self.show = get("show", "") if get("show") in SHOWS else ""
        self.days = get("days", "1") if get("days") in PERIODS else "1"
        self.before = time_of(get("before", ""))

    def url(self, **changes: object) -> str:
        names = "client_id", "cause", "step", "who", "reference", "show", "days"
        return shown.page("activity", **{name: getattr(self, name) for name in names} | changes)

    @property
    def filters(self) -> Filters:
        return Filters(
            client_id=self.client_id,
            client_ids=self.client_ids,
            cause=self.cause,
            step=self.step,
            who=self.who,
            reference=self.reference,
            since=statistics.start_of(int(self.days)),
            is_failure=self.show == "failed" or (bool(self.step) and not (self.cause or self.reference)),
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.cause or self.step or self.is_of_some or self.show)

    @property
    def is_of_some(self) -> bool:
        """Whether `who` or `reference` filters the list. The counts on the page ignore both filters."""
        return bool(self.who or self.reference)


def activity(request: HttpRequest) -> TemplateResponse:
    """Show the activity that the administrator may see. `client_id` in the query selects one application.

    If the query also has `live`, the page waits for a sign-in. `live` is the time at which the wait began.
    Raises PermissionDenied: no activity may be seen. Raises Http404: the activity of `client_id` may not be seen.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    query = Query(request)
    if query.client_id and query.client_ids is not None and query.client_id not in query.client_ids:
        raise Http404
    application = Application.objects.filter(client_id=query.client_id).first() if query.client_id else None
    found = attempts.attempts(query.filters, before=query.before, limit=ATTEMPTS + 1)
    names = Names(request, (each.client_id for each in found), (each.person_id for each in found))
    has_board = application is not None and not (query.is_filtered or query.before)
    is_live, waits_since = has_board and "live" in request.GET, time_of(request.GET.get("live", ""))
    choices = rights.applications(request, ACTIVITY).values("client_id", "name")
    context = {
        **admin.site.each_context(request),
        **({} if is_live else _counts(query)),
        "board": shown_attempts.board(application, found, names) if application and has_board else None,
        "is_live": is_live,
        # A browser without script reloads the page for 15 minutes.
        "reloads": bool(waits_since and timedelta(0) <= timezone.now() - waits_since < shown_attempts.LASTS),
        "application": shown.named(application) if application else None,
        "applications": [] if is_live else choices.order_by("name"),
        "query": query,
        "attempts": [
            shown_attempts.attempt(each, names)
            for each in found[:ATTEMPTS]
            if query.show != "failed" or _needs_mending(each)
        ],
        "opened": int(bool(query.cause)),
        "periods": PERIODS.items(),
        "shows": SHOWS.items(),
        "all_url": query.url(cause="", step="", who="", reference="", show=""),
        "older_url": query.url(before=found[ATTEMPTS - 1].latest_at.isoformat()) if len(found) > ATTEMPTS else "",
        "newer_url": query.url() if query.before else "",
        "since": query.filters.since,
        "chosen": title_of(query.cause) if query.cause else name_of(query.step) if query.step else "",
        "chosen_fix": fix_of(query.cause),
    }
    return TemplateResponse(request, "administration/activity.html", context)


def _needs_mending(each: Attempt) -> bool:
    failure = each.chosen or each.failure
    return bool(failure and needs_mending(failure.step, failure.cause))


def _counts(query: Query) -> dict[str, Any]:
    only = [query.client_id] if query.client_id else query.client_ids
    since = query.filters.since or timezone.now()
    merged: Counter[Failing] = Counter()
    for failing, number in statistics.failures(since, None, only).items():
        merged[failing._replace(client_id="")] += number
    steps = {step: sum(number for each, number in merged.items() if each.step == step) for step in Step}
    if query.cause and not any(each.cause == query.cause for each in merged):
        merged[Failing("", query.step or Step.AUTHORIZE.value, query.cause)] = 0
    causes = shown.causes(merged, lambda each: query.url(cause=each.cause, step=each.step, before=""))
    return {
        "steps": [(step.value, name_of(step), number) for step, number in steps.items()],
        "causes": causes,
        "top_causes": causes[:MOST_CAUSES],
        "failed": sum(number for each, number in merged.items() if needs_mending(each.step, each.cause)),
        "finished": statistics.sign_ins(since, only).total(),
        "chosen_number": sum(
            number
            for each, number in merged.items()
            if query.cause in ("", each.cause) and query.step in ("", each.step)
        ),
    }


def time_of(text: str) -> datetime | None:
    """Parse a time in ISO 8601 format. Without a time zone, it is UTC. Return None for any other text."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
