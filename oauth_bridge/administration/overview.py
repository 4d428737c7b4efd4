"""The administration's first page: failures by application and cause, ending secrets, doubtful applications."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone

from config.infrastructure import network
from oauth_bridge.activity import statistics
from oauth_bridge.activity.causes import name_of, needs_mending, title_of
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import rights, shown, summaries
from oauth_bridge.administration.shown import Named, Names
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.models.activity import Step

DAY = timedelta(days=1)
MOST_CAUSES = 12
MOST_SUMMARISED = 200
MOST_LISTED = 6


class CauseRow(NamedTuple):
    """A row of the table of causes: one cause of one application."""

    application: Named
    title: str
    step: str
    url: str
    number: int
    before: int
    people: int | None
    last_at: datetime | None
    share: int
    is_new: bool


def overview(request: HttpRequest) -> TemplateResponse:
    """Show the overview. Each part of the page needs its own permission."""
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "since": statistics.start_of(1),
        "is_overview": True,
        "connection": _connection(request) if request.user.is_superuser else None,
    }
    if rights.may(request, rights.ACTIVITY):
        context |= _failures(request)
    if rights.may(request, rights.VIEW):
        seen = rights.applications(request, rights.VIEW)
        context |= {"ending": _ending_secrets(seen), "doubtful": _doubtful(seen), "has_any": seen.exists()}
    return TemplateResponse(request, "administration/overview.html", context)


def _connection(request: HttpRequest) -> dict[str, Any]:
    """Return from where the request came, and as what it counts, so that an operator can check the proxies."""
    peer = request.META.get("REMOTE_ADDR", "")
    is_ignored = "X-Forwarded-For" in request.headers and not network.is_proxy(peer)
    return {"peer": peer, "address": network.client_address(request), "is_ignored": is_ignored}


def _failures(request: HttpRequest) -> dict[str, Any]:
    since = statistics.start_of(1)
    only = rights.client_ids(request)
    today = statistics.failures(since, None, only)
    before = statistics.failures(since - DAY, since, only)
    finished = statistics.sign_ins(since, only)
    finished_before = statistics.sign_ins(since - DAY, only) - finished
    mend = {cause: number for cause, number in today.items() if needs_mending(cause.step, cause.cause)}
    met = statistics.met(since, only)
    names = Names(request, (cause.client_id for cause in mend), ())
    last = {cause: met[cause].last_at if cause in met else since for cause in mend}
    ordered = sorted(mend.items(), key=lambda item: (item[1], last[item[0]]), reverse=True)[:MOST_CAUSES]
    largest = ordered[0][1] if ordered else 0
    rows = [_row(cause, number, before[cause], met.get(cause), names, largest) for cause, number in ordered]
    typed = sum(number for cause, number in today.items() if cause.step == Step.SIGN_IN)
    failed_before = sum(number for cause, number in before.items() if needs_mending(cause.step, cause.cause))
    failed = sum(mend.values())
    return {
        "causes": rows,
        "more_causes": len(mend) - len(rows),
        "failing": _failing(mend, finished),
        "failed": failed,
        "finished": sum(finished.values()),
        "failed_before": failed_before,
        "finished_before": sum(finished_before.values()),
        "typed_wrong": typed if only is None else 0,
        "may_see_activity": True,
    }


def _failing(mend: dict[Failing, int], finished: Counter[str]) -> int:
    """Count the applications that the list of applications shows as Failing."""
    failed: Counter[str] = Counter()
    for cause, number in mend.items():
        failed[cause.client_id] += number
    failing = [each for each, number in failed.items() if summaries.is_failing(finished[each], number)]
    return Application.objects.filter(client_id__in=failing, is_enabled=True).count()


def _row(cause: Failing, number: int, before: int, met: statistics.Met | None, names: Names, largest: int) -> CauseRow:
    return CauseRow(
        application=names.application(cause.client_id),
        title=title_of(cause.cause),
        step=name_of(cause.step),
        url=shown.page("activity", cause=cause.cause, step=cause.step, client_id=cause.client_id),
        number=number,
        before=before,
        people=met.people if met else None,
        last_at=met.last_at if met else None,
        share=shown.share(number, largest),
        is_new=not before,
    )


def _ending_secrets(seen: QuerySet[Application]) -> list[dict[str, Any]]:
    """The client secrets that end soon, the earliest end first. `has_other`: the application has a newer secret."""
    now = timezone.now()
    soon = (
        ApplicationSecret.objects.filter(
            expires_at__lt=now + summaries.ENDS_SOON,
            expires_at__gt=now,
            is_revoked=False,
            application__in=seen.filter(is_enabled=True),
        )
        .select_related("application")
        .order_by("expires_at")[:MOST_LISTED]
    )
    return [
        {
            "application": shown.named(row.application),
            "number": row.pk,
            "days": (row.expires_at - now).days,
            "last_used_at": row.last_used_at,
            "has_other": row.application.secrets.filter(pk__gt=row.pk, is_revoked=False).exists(),
            "url": shown.page("oauth_bridge_application_secret", row.application.pk),
        }
        for row in soon
        if row.expires_at
    ]


def _doubtful(seen: QuerySet[Application]) -> list[dict[str, Any]]:
    """The risky, stale and ownerless applications, the earliest registered first."""
    found = list(seen.filter(is_enabled=True).order_by("created")[:MOST_SUMMARISED])
    summary = summaries.of(found)
    doubtful = [
        each for each in found if summary[each.pk].state in (summaries.RISKY, summaries.STALE, summaries.NO_OWNER)
    ]
    return [
        {
            "application": shown.named(each),
            "state": summary[each.pk].state,
            "has_no_owner": summary[each.pk].state is summaries.NO_OWNER,
            "is_risky": summary[each.pk].state is summaries.RISKY,
            "days": (timezone.now() - (summary[each.pk].last_at or each.created)).days,
        }
        for each in doubtful[:MOST_LISTED]
    ]
