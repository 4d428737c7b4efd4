"""The activity page: the steps at which sign-ins stop, the causes, and the attempts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from accounts.email_addresses import looked_up_email
from oauth_bridge.activity import attempts, reading, statistics
from oauth_bridge.activity.attempts import Attempt
from oauth_bridge.activity.causes import fix_of, name_of, needs_mending, title_of
from oauth_bridge.activity.reading import Filters, described
from oauth_bridge.activity.statistics import Failing, Met
from oauth_bridge.administration import board, rights, shown, shown_attempts
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE
from oauth_bridge.administration.shown import Names
from oauth_bridge.models import Application
from oauth_bridge.models.activity import Step

PERIODS = {1: gettext_lazy("24 hours"), 7: gettext_lazy("7 days"), 30: gettext_lazy("30 days")}
ATTEMPTS = 20
DOWNLOADED = 1000


class StepFigure(NamedTuple):
    """A step, and the number of sign-ins that stopped at it. `is_nobodys`: no failure needs mending."""

    name: str
    number: int
    is_nobodys: bool
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A row of the table of causes."""

    title: str
    fix: str
    step: str
    number: int
    people: int | None
    last_at: datetime | None
    share: int
    needs_mending: bool
    url: str
    is_chosen: bool


class Query:
    """The query parameters of the activity page. Unknown values are ignored."""

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
        self.show = get("show", "") if get("show") in ("failed", "unfinished") else ""
        self.days = int(get("days", "")) if get("days", "") in map(str, PERIODS) else 1
        self.before = time_of(get("before", ""))
        self.waits_since = time_of(get("live", ""))

    def url(self, **changes: object) -> str:
        """The URL of the activity page. `changes` replace parameters of this query."""
        chosen: dict[str, Any] = {
            "client_id": self.client_id,
            "cause": self.cause,
            "step": self.step,
            "who": self.who,
            "reference": self.reference,
            "show": self.show,
            "days": "" if self.days == 1 else self.days,
        } | changes
        return shown.page("activity", **chosen)

    @property
    def since(self) -> datetime:
        return statistics.start_of(self.days)

    @property
    def filters(self) -> Filters:
        return Filters(
            client_id=self.client_id,
            client_ids=self.client_ids,
            cause=self.cause,
            step=self.step,
            who=self.who,
            reference=self.reference,
            since=self.since,
            is_failure=bool(self.step) and not (self.cause or self.reference),
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.cause or self.step or self.is_of_some or self.show)

    @property
    def is_waiting(self) -> bool:
        """Whether the page is loaded again without script: for board.LASTS after an administrator began to wait."""
        return bool(self.waits_since and self.waits_since <= timezone.now() < self.waits_since + board.LASTS)

    @property
    def is_of_some(self) -> bool:
        """Only the attempts of one address, person or reference are listed. The counts are those of everybody."""
        return bool(self.who or self.reference)


def activity(request: HttpRequest) -> HttpResponse:
    """Show the activity of one application or of all. For one application, the board shows each step as it happens.

    With `live`, the steps and causes of the period are left out; a time in it is when an administrator began to wait.
    With `format=json`, return the records in the JSON format of the command `application activity`.

    Raises PermissionDenied: the permission to see the activity is missing. Raises Http404: the administrator may not
    see the activity of this application.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    query = Query(request)
    if query.client_id and query.client_ids is not None and query.client_id not in query.client_ids:
        raise Http404
    if request.GET.get("format") == "json":
        return _download(request, query)
    application = Application.objects.filter(client_id=query.client_id).first() if query.client_id else None
    found = attempts.attempts(query.filters, before=query.before, limit=ATTEMPTS + 1)
    names = Names(request, shown.client_ids_of(found), (each.person_id for each in found))
    has_board = application is not None and not (query.is_filtered or query.before)
    is_live = has_board and "live" in request.GET
    rows = [shown_attempts.attempt(each, names) for each in found[:ATTEMPTS] if _is_shown(each, query)]
    context = {
        **admin.site.each_context(request),
        **({} if is_live else _causes(query)),
        "board": board.of(application, found, names) if application and has_board else None,
        "is_live": is_live,
        "application": shown.named(application) if application else None,
        "query": query,
        "attempts": rows,
        "periods": [(query.url(days=days, before=""), text, days == query.days) for days, text in PERIODS.items()],
        "shows": [(query.url(show=show), text, query.show == show) for show, text in SHOWS.items()],
        "all_url": query.url(cause="", step="", who="", reference="", show=""),
        "older_url": query.url(before=found[ATTEMPTS - 1].latest_at.isoformat()) if len(found) > ATTEMPTS else "",
        "newer_url": query.url() if query.before else "",
        "json_url": query.url(format="json"),
        "since": query.since,
        "chosen": _chosen(query),
    }
    return TemplateResponse(request, "administration/activity.html", context)


def _chosen(query: Query) -> str:
    """The title of the cause, or the name of the step, that the query selects."""
    return title_of(query.cause) if query.cause else name_of(query.step) if query.step else ""


def _download(request: HttpRequest, query: Query) -> HttpResponse:
    """The records as a file, with what the administrator may see of each."""
    sight = rights.sight(request)
    records = [described(entry, sight) for entry in reading.entries(replace(query.filters, limit=DOWNLOADED))]
    answer = JsonResponse(records, safe=False, json_dumps_params={"indent": 2})
    answer["Content-Disposition"] = 'attachment; filename="activity.json"'
    return answer


SHOWS = {"": gettext_lazy("All"), "unfinished": gettext_lazy("Not finished"), "failed": gettext_lazy("Failed")}


def _is_shown(each: Attempt, query: Query) -> bool:
    if query.show == "failed":
        return bool(each.failure and needs_mending(each.failure.step, each.failure.cause))
    return query.show != "unfinished" or each.ending is not attempts.Ending.SIGNED_IN


def _causes(query: Query) -> dict[str, Any]:
    """The template's variables for the steps and the table of causes, for the chosen period."""
    only = [query.client_id] if query.client_id else query.client_ids
    failures = statistics.failures(query.since, None, only)
    finished = sum(statistics.sign_ins(query.since, only).values())
    merged: Counter[tuple[str, str]] = Counter()
    for failing, number in failures.items():
        merged[failing.step, failing.cause] += number
    met = _merged_met(statistics.met(query.since, only))
    mend = sum(number for (step, cause), number in merged.items() if needs_mending(step, cause))
    largest = max(merged.values(), default=0)
    rows = [
        CauseRow(
            title=title_of(cause),
            fix=fix_of(cause),
            step=name_of(step),
            number=number,
            people=met[step, cause].people if (step, cause) in met else None,
            last_at=met[step, cause].last_at if (step, cause) in met else None,
            share=shown.share(number, largest),
            needs_mending=needs_mending(step, cause),
            url=query.url(cause=cause, step=step, before=""),
            is_chosen=bool(query.cause) and _is_chosen(query, step, cause),
        )
        for (step, cause), number in sorted(merged.items(), key=lambda item: (not needs_mending(*item[0]), -item[1]))
    ]
    return {
        "steps": _figures(query, merged),
        "causes": rows,
        "failed": mend,
        "finished": finished,
        "chosen_number": sum(number for key, number in merged.items() if _is_chosen(query, *key)),
        "chosen_fix": fix_of(query.cause) if query.cause else "",
    }


def _is_chosen(query: Query, step: str, cause: str) -> bool:
    return query.cause in ("", cause) and query.step in ("", step)


def _figures(query: Query, merged: Counter[tuple[str, str]]) -> list[StepFigure]:
    figures = []
    for step in Step:
        own = {cause: number for (of, cause), number in merged.items() if of == step}
        is_nobodys = not any(needs_mending(step, cause) for cause in own)
        url = query.url(step=step.value, cause="", before="")
        figures.append(StepFigure(name_of(step), sum(own.values()), is_nobodys, url, query.step == step))
    return figures


def _merged_met(met: dict[Failing, Met]) -> dict[tuple[str, str], Met]:
    """Add up the figures of all applications. A person with failures in two applications counts twice."""
    merged: dict[tuple[str, str], Met] = {}
    for failing, (people, last_at) in met.items():
        key = failing.step, failing.cause
        before = merged.get(key, Met(0, last_at))
        merged[key] = Met(before.people + people, max(before.last_at, last_at))
    return merged


def time_of(text: str) -> datetime | None:
    """Parse a time from a query parameter. A time without a zone is in UTC. Returns None for a malformed text."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
