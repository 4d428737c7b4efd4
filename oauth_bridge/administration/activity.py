"""The activity page: the attempts to sign in, latest first, with filters by person, application, step, cause, time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from accounts.email_addresses import looked_up_email
from config.infrastructure import network
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
SHOWS = {"": gettext_lazy("All"), "unfinished": gettext_lazy("Not finished"), "failed": gettext_lazy("Failed")}
ATTEMPTS = 20
MOST_CAUSES = 6  # that are links above the list


class Query:
    """The query parameters of the activity page. `who`: an e-mail address or IP address, or "" for everybody."""

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
        self.waits_since = time_of(get("live", ""))

    def url(self, **changes: object) -> str:
        chosen: dict[str, Any] = {
            "client_id": self.client_id,
            "cause": self.cause,
            "step": self.step,
            "who": self.who,
            "reference": self.reference,
            "show": self.show,
            "days": "" if self.days == "1" else self.days,
        } | changes
        return shown.page("activity", **chosen)

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
    def is_waiting(self) -> bool:
        """Whether the page reloads itself, even without script: until 15 minutes after the time that is in `live`."""
        lasts = shown_attempts.LASTS
        return bool(self.waits_since and self.waits_since <= timezone.now() < self.waits_since + lasts)

    @property
    def is_of_some(self) -> bool:
        """Whether only the attempts of one address or reference are listed. The counts still include everybody."""
        return bool(self.who or self.reference)

    @property
    def is_of_no_address(self) -> bool:
        return bool(self.who) and "@" not in self.who and not network.is_ip_address(self.who)

    def chooses(self, failing: Failing) -> bool:
        return self.cause in ("", failing.cause) and self.step in ("", failing.step)


def activity(request: HttpRequest) -> TemplateResponse:
    """Show the activity of one application or of all. For one application, a board shows each step as it happens.

    With `live` (the time when the administrator began to wait for a sign-in), the page with the board has no counts.

    Raises PermissionDenied: the permission to see the activity is missing. Raises Http404: the administrator may not
    see the activity of this application.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    query = Query(request)
    if query.client_id and query.client_ids is not None and query.client_id not in query.client_ids:
        raise Http404
    application = Application.objects.filter(client_id=query.client_id).first() if query.client_id else None
    found = attempts.attempts(query.filters, before=query.before, limit=ATTEMPTS + 1)
    names = Names(request, shown.client_ids_of(found), (each.person_id for each in found))
    has_board = application is not None and not (query.is_filtered or query.before)
    is_live = has_board and "live" in request.GET
    choices = rights.applications(request, ACTIVITY).values("client_id", "name")
    context = {
        **admin.site.each_context(request),
        **({} if is_live else _counts(query)),
        "board": shown_attempts.board(application, found, names) if application and has_board else None,
        "is_live": is_live,
        "application": shown.named(application) if application else None,
        "applications": [] if is_live else choices.order_by("name"),
        "query": query,
        "attempts": [shown_attempts.attempt(each, names) for each in found[:ATTEMPTS] if _is_shown(each, query)],
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


def _is_shown(each: Attempt, query: Query) -> bool:
    failure = each.chosen or each.failure
    if query.show == "failed":
        return bool(failure and needs_mending(failure.step, failure.cause))
    return query.show != "unfinished" or each.ending is not attempts.Ending.SIGNED_IN


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
        "chosen_number": sum(number for each, number in merged.items() if query.chooses(each)),
    }


def time_of(text: str) -> datetime | None:
    """Parse a time from a query parameter. A time without a zone is in UTC. Returns None for a malformed text."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
