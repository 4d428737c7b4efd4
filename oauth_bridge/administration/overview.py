"""The administration's first page: the search, the latest failures and their causes, and what somebody must look at."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from accounts.templatetags.times import ago
from config.infrastructure import network
from oauth_bridge.activity import attempts, reading, statistics
from oauth_bridge.activity.reading import Filters
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import checks, rights, shown, shown_attempts
from oauth_bridge.administration.checks import State
from oauth_bridge.administration.shown import Named, Names
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.templatetags.formatting import until

DAY = timedelta(days=1)
MOST_CAUSES, MOST_FAILURES = 8, 8
MOST_SUMMARISED = 200
MOST_LISTED = 6

SECRET_ENDS = State("warning", gettext_lazy("Secret ends"))
WHY_DOUBTFUL = {
    checks.RISKY: gettext_lazy("Trusted, and a callback address without https"),
    checks.NO_OWNER: gettext_lazy("Nobody who can look after it is named as its owner"),
}


class Needed(NamedTuple):
    """An application that somebody must look at. `url`: the page on which the problem is solved."""

    application: Named
    state: State
    text: str
    url: str


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
        enabled = seen.filter(is_enabled=True)
        found = [*_would_fail(enabled), *_ending_secrets(enabled), *_doubtful(enabled)]
        context |= {"needed": found, "has_any": seen.exists()}
    return TemplateResponse(request, "administration/overview.html", context)


def _connection(request: HttpRequest) -> dict[str, Any]:
    """Return from where the request came, and as what it counts, so that an operator can check the proxies."""
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
    shown_ids = shown.client_ids_of(latest) | {cause.client_id for cause in top}
    names = Names(request, shown_ids, (each.person_id for each in latest))
    return {
        "attempts": [shown_attempts.attempt(each, names) for each in latest],
        "causes": shown.causes(top, _url_of, names, before),
        "more_causes": len(mend) - len(top),
        "failing": _failing(mend, finished),
        "failed": sum(mend.values()),
        "finished": sum(finished.values()),
        "failed_before": sum(before.values()),
        "finished_before": sum((statistics.sign_ins(since - DAY, only) - finished).values()),
        "may_see_activity": True,
    }


def _url_of(cause: Failing) -> str:
    return shown.page("activity", cause=cause.cause, step=cause.step, client_id=cause.client_id)


def _failing(mend: dict[Failing, int], finished: Counter[str]) -> int:
    """Count the applications that the list of applications shows as Failing."""
    failed: Counter[str] = Counter()
    for cause, number in mend.items():
        if checks.is_of_now(cause):
            failed[cause.client_id] += number
    failing = [each for each, number in failed.items() if checks.is_failing(finished[each], number)]
    return Application.objects.filter(client_id__in=failing, is_enabled=True).count()


def _would_fail(enabled: QuerySet[Application]) -> list[Needed]:
    """The applications to which nobody can sign in: without a secret that works, or for groups without a member."""
    works = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    secrets = ApplicationSecret.objects.filter(works, application=OuterRef("pk"), is_revoked=False)
    members = User.groups.through.objects.filter(group=OuterRef("pk"), user__is_active=True)
    groups = list(Group.objects.filter(Exists(members)).values_list("pk", flat=True))
    admitting = Application.groups.through.objects.filter(application=OuterRef("pk"), group__in=groups)
    lacks_secret = Q(client_type="confidential") & ~Exists(secrets)
    found = enabled.annotate(lacks_secret=ExpressionWrapper(lacks_secret, BooleanField())).filter(
        Q(lacks_secret=True) | (Q(is_restricted=True) & ~Exists(admitting))
    )
    needed = []
    for each in found.order_by("created")[:MOST_LISTED]:
        finding, named = checks.no_secret() if each.lacks_secret else checks.nobody_admitted(), shown.named(each)
        needed.append(Needed(named, checks.FAILING, f"{finding.problem} {finding.fix}", named.url))
    return needed


def _ending_secrets(enabled: QuerySet[Application]) -> list[Needed]:
    """The client secrets that end soon, the earliest end first."""
    now = timezone.now()
    soon = ApplicationSecret.objects.filter(
        expires_at__lt=now + checks.ENDS_SOON, expires_at__gt=now, is_revoked=False, application__in=enabled
    )
    found = []
    for row in soon.select_related("application").order_by("expires_at")[:MOST_LISTED]:
        has_newer = row.application.secrets.filter(pk__gt=row.pk, is_revoked=False).exists()
        used = format_html(_("Last used %(ago)s.") % {"ago": "{}"}, ago(row.last_used_at)) if row.last_used_at else ""
        other = _("A newer one works.") if has_newer else _("The only one.")
        left = {"number": row.number, "time": until(row.expires_at or now)}
        ends = _("Client secret No. %(number)d ends in %(time)s.") % left
        url = shown.page("oauth_bridge_application_secret", row.application.pk)
        text = format_html("{} {} {}", ends, other, used or _("Never used."))
        found.append(Needed(shown.named(row.application), SECRET_ENDS, text, url))
    return found


def _doubtful(enabled: QuerySet[Application]) -> list[Needed]:
    """The risky, stale and ownerless applications, the earliest registered first."""
    rows = list(enabled.order_by("created")[:MOST_SUMMARISED])
    summary = checks.summaries(rows)
    found = [each for each in rows if summary[each.pk].state in (*WHY_DOUBTFUL, checks.STALE)]
    return [
        Needed(
            named := shown.named(each),
            summary[each.pk].state,
            str(WHY_DOUBTFUL.get(summary[each.pk].state) or checks.no_sign_in(each, summary[each.pk])),
            named.url,
        )
        for each in found[:MOST_LISTED]
    ]
