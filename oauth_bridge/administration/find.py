"""The administration's search for people, applications and references."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from accounts.email_addresses import looked_up_email
from accounts.models import User
from oauth_bridge.activity import reading
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import person, rights, shown
from oauth_bridge.administration.record_facts import with_client_id
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE, VIEW

MOST_LISTED = 20


def find(request: HttpRequest) -> HttpResponse:
    """Redirect to the page from `_url_of`. If it finds no page, list people and applications that match the text."""
    if not may_find(request):
        raise PermissionDenied
    typed = request.GET.get("q", "").strip()
    if url := _url_of(request, typed):
        return redirect(url)
    text = typed if typed.isprintable() else ""
    seen, may_see_people = rights.applications(request, VIEW), bool(text) and request.user.has_perm(PEOPLE)
    found = User.objects.filter(person.matching(text)) if may_see_people else User.objects.none()
    people = list(found.order_by("email")[: MOST_LISTED + 1])
    has_text = Q(name__icontains=text) | Q(homepage__icontains=text) | Q(client_id__icontains=text)
    applications = list(seen.filter(has_text).order_by("name")[: MOST_LISTED + 1]) if text else []
    context = {
        **admin.site.each_context(request),
        "typed": typed,
        "people": people[:MOST_LISTED],
        "applications": shown.told_apart(applications[:MOST_LISTED]).values(),
        "is_cut": len(people) > MOST_LISTED or len(applications) > MOST_LISTED,
        "near": [shown.named(each) for each in with_client_id(seen, text.lower())],
        "is_overview": True,
    }
    return TemplateResponse(request, "administration/find.html", context)


def may_find(request: HttpRequest) -> bool:
    return any(rights.may(request, each) for each in (ACTIVITY, VIEW, PEOPLE))


def _url_of(request: HttpRequest, typed: str) -> str:
    """The URL of the page about the typed e-mail address, client ID or reference; "" if no such page may be seen."""
    has = request.user.has_perm
    if address := looked_up_email(typed):
        if has(PEOPLE) and (owner := reading.person_with(address)):
            return shown.page("person", owner)
        is_recorded = has(ACTIVITY) and reading.entries(Filters(who=address, limit=1))
        return shown.page("activity", who=address, days=30) if is_recorded else ""
    if not typed or not typed.isprintable() or "@" in typed:
        return ""
    if application := rights.applications(request, VIEW).filter(client_id=typed).first():
        return shown.page("application", application.pk)
    if rights.may(request, ACTIVITY):
        found = reading.entries(Filters(reference=typed, limit=2, client_ids=rights.client_ids(request)))
        if found:
            many = shown.page("activity", reference=typed, days=30)
            return many if len(found) > 1 else shown.record_url(found[0])
    return ""
