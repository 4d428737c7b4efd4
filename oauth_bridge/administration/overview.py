"""The administration's first page: the search, the latest failures, and applications with problems or risks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Case, F, Max, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.template.response import TemplateResponse

from config.infrastructure import network
from oauth_bridge.activity import attempts, reading, statistics
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import checks, rights, shown, shown_attempts
from oauth_bridge.administration.checks import Finding, State
from oauth_bridge.administration.shown import Named, Names
from oauth_bridge.models import Application

DAY = timedelta(days=1)
MOST_CAUSES, MOST_FAILURES = 8, 8
MOST_SUMMARISED, MOST_LISTED = 500, 12


def overview(request: HttpRequest) -> TemplateResponse:
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
        context |= {"needed": _needed(seen.filter(is_enabled=True)), "has_any": seen.exists()}
    return TemplateResponse(request, "administration/overview.html", context)


def _connection(request: HttpRequest) -> dict[str, Any]:
    """The network addresses of the request. A superuser can use them to check the setting TRUSTED_PROXIES."""
    peer = request.META.get("REMOTE_ADDR", "")
    is_ignored = "X-Forwarded-For" in request.headers and not network.is_proxy(peer)
    return {"peer": peer, "address": network.client_address(request), "is_ignored": is_ignored}


def _failures(request: HttpRequest) -> dict[str, Any]:
    since = statistics.start_of(1)
    only = rights.client_ids(request)
    before = checks.to_mend(statistics.failures(since - DAY, since, only))
    finished = statistics.sign_ins(since, only)
    mend = checks.to_mend(statistics.failures(since, None, only))
    among = reading.latest_id() - statistics.MOST_RECORDS
    latest = attempts.attempts(Filters(client_ids=only, after_id=among, is_failure=True), limit=MOST_FAILURES)
    top = dict(mend.most_common(MOST_CAUSES))
    client_ids = {each.client_id for each in latest} | {each.client_id for each in top}
    names = Names(request, client_ids, (each.person_id for each in latest))
    return {
        "attempts": [shown_attempts.attempt(each, names) for each in latest],
        "causes": shown.causes(top, lambda each: shown.page("activity", **each._asdict()), names, before),
        "more_causes": len(mend) - len(top),
        "failing": Application.objects.filter(client_id__in=checks.failing(mend, finished), is_enabled=True).count(),
        "failed": sum(mend.values()),
        "finished": sum(finished.values()),
        "failed_before": sum(before.values()),
        "finished_before": sum((statistics.sign_ins(since - DAY, only) - finished).values()),
        "may_see_activity": True,
    }


def _needed(enabled: QuerySet[Application]) -> list[tuple[Named, State, Finding]]:
    """The name, state and first finding of each application with findings. Failing ones are first, unused ones last.

    Lists at most MOST_LISTED. Checks at most MOST_SUMMARISED: those whose secrets are missing or end soonest.
    """
    never = Value(datetime(9999, 1, 1, tzinfo=UTC))
    last = Max(Coalesce("secrets__expires_at", never), filter=Q(secrets__is_revoked=False))
    ending = enabled.alias(ends=Case(When(client_type="public", then=never), default=last))
    order = (F("ends").asc(nulls_first=True), "-is_restricted", "-is_trusted", "created")
    rows = list(ending.order_by(*order)[:MOST_SUMMARISED])
    summaries = checks.summaries(rows)
    needed = []
    for each in rows:
        for finding in checks.of_registration(each, summaries[each.pk])[:1]:
            harmless = checks.STALE if finding.code == "unused" else checks.RISKY
            needed.append((shown.named(each), checks.FAILING if finding.would_fail else harmless, finding))
    return sorted(needed, key=lambda each: (not each[2].would_fail, each[2].code == "unused"))[:MOST_LISTED]
