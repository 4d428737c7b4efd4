"""The page of an application."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from oauth_bridge.activity import attempts, statistics
from oauth_bridge.activity.reading import Filters
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import application_acts, checks, rights, secret_page, shown, shown_attempts
from oauth_bridge.administration.checks import Summary
from oauth_bridge.administration.rights import ACTIVITY
from oauth_bridge.administration.shown import Names
from oauth_bridge.api_docs import documents
from oauth_bridge.callback_addresses.registration import hints
from oauth_bridge.models import Application, Consent

ATTEMPTS = 6
# The label of each code snippet, and its language and name in the guide.
SNIPPETS = [("curl", "sh", "curl"), ("Python", "python", "client"), ("Node", "js", "client"), ("PHP", "php", "client")]
ELSEWHERE = ("switch-on", "switch-off", "new-secret")  # acts that have their links in other places of the page


def application(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the page of an application. Raises PermissionDenied or Http404 as `rights.find_application` does."""
    found = rights.find_application(request, pk)
    may_see_people = request.user.has_perm(rights.PEOPLE)
    failures = statistics.failures(statistics.start_of(checks.MONTH), None, [found.client_id])
    summary = checks.summaries([found])[found.pk]
    acts = application_acts.offered(request, found)
    context = {
        **admin.site.each_context(request),
        "title": found.name,
        "application": found,
        "named": shown.named(found),
        "summary": summary,
        "findings": checks.of_registration(found, summary),
        "kind": checks.KINDS[found.client_type],
        "signed_in_month": checks.month(found),
        "failed_month": sum(checks.to_mend(failures).values()),
        "people": Consent.objects.filter(application=found).count(),
        "product_settings": secret_page.product_settings(found),
        "callbacks": [(address, hints(address, is_public=found.is_public)) for address in found.callback_addresses],
        "snippets": [
            (label, documents.fill_for(documents.blocks("guide", language)[name], found))
            for label, language, name in SNIPPETS
        ],
        "secrets": summary.secrets,
        "has_secret": summary.has_secret,
        "has_ended": not all(each.works for each in summary.secrets),
        "groups": shown.groups(request, found.groups.order_by("name")) if found.is_restricted else [],
        "off_since": shown.off_since(request, found),
        "owners": list(found.owners.order_by("nickname", "email")) if may_see_people else [],
        "may_see_people": may_see_people,
        "may_see_history": request.user.has_perm(rights.VIEW),
        "may_change": rights.may(request, rights.CHANGE, found),
        "may_rotate": rights.may(request, rights.ROTATE, found),
        "may_delete": request.user.has_perm(rights.DELETE),
        "acts": [each for each in acts if each["name"] not in ELSEWHERE],
        "switches": [each for each in acts if each["name"].startswith("switch")],
    }
    if rights.may(request, ACTIVITY, found):
        context |= _activity(request, found, summary, failures)
    return TemplateResponse(request, "administration/application.html", context)


def _activity(request: HttpRequest, found: Application, summary: Summary, failures: Counter[Failing]) -> dict[str, Any]:
    query = {"client_id": found.client_id, "days": checks.MONTH}
    causes = shown.causes(failures, lambda each: shown.page("activity", **query, cause=each.cause, step=each.step))
    client_ids, since = rights.client_ids(request), statistics.start_of(checks.MONTH)
    latest = attempts.attempts(Filters(client_id=found.client_id, client_ids=client_ids, since=since), limit=ATTEMPTS)
    names = Names(request, [found.client_id], (each.person_id for each in latest))
    return {
        "causes": causes,
        "attempts": [shown_attempts.attempt(each, names) for each in latest],
        "board": None if summary.last_at else shown_attempts.board(found, latest, names),
        "waiting_url": shown.page("activity", client_id=found.client_id, live=timezone.now().isoformat()),
        "refused": sum(number for cause, number in failures.items() if cause.cause == "refused"),
        "activity_url": shown.page("activity", **query),
        "may_see_activity": True,
    }
