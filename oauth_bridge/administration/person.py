"""The administration page of a person: sign-in attempts, applications, browsers, sign-in methods, actions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from accounts.factors import authenticators as factors
from accounts.models import Session, User
from accounts.pages import person_context
from accounts.sessions import user_agents
from oauth_bridge.activity import attempts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import person_acts, rights, shown, shown_attempts
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE
from oauth_bridge.administration.shown import Names
from oauth_bridge.consent import consents
from oauth_bridge.templatetags.formatting import time_since

ATTEMPTS, MOST_BROWSERS = 6, 10


def person(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Show the page of a person. With `act` in the query, GET asks for confirmation and POST performs the act.

    Raises PermissionDenied: the permission to see people or to change this person is missing. Raises Http404: the
    person or the act does not exist.
    """
    if not request.user.has_perm(PEOPLE):
        raise PermissionDenied
    found = User.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    if "act" in request.GET:
        return person_acts.act(request, found, request.GET["act"])
    context = {
        **admin.site.each_context(request),
        "title": found.display_name,
        "person": found,
        "shown": person_context(found),
        "connections": [_connection(each) for each in consents.connections(found)],
        "browsers": [_browser(row) for row in person_acts.browsers(found)[:MOST_BROWSERS]],
        "browser_count": person_acts.browsers(found).count(),
        "factors": factors.overview(found),
        "has_password": found.has_usable_password(),
        "acts": person_acts.offered(request, found),
        "may_change": person_acts.may_change(request, found),
        "may_delete": admin.site.get_model_admin(User).has_delete_permission(request, found),
        "groups": list(found.groups.values_list("name", flat=True)),
        "owns": rights.applications(request, rights.VIEW).filter(pk__in=found.owned_applications.values("pk")),
    }
    if request.user.has_perm(ACTIVITY):
        latest = attempts.attempts(Filters(person_id=found.pk), limit=ATTEMPTS)
        names = Names(request, shown.client_ids_of(latest), [found.pk])
        context |= {
            "attempts": [shown_attempts.attempt(each, names) for each in latest],
            "activity_url": shown.page("activity", who=found.email, days=30),
            "may_see_activity": True,
        }
    return TemplateResponse(request, "administration/person.html", context)


def _connection(each: consents.Connection) -> dict[str, Any]:
    return {
        "application": shown.named(each.application),
        "client_id": each.application.client_id,
        "allowed_at": each.consent and each.consent.given_at,
        "remembered_until": each.consent and each.consent.expires_at,
        "last_at": each.sign_ins and each.sign_ins.last_at,
        "sign_ins": each.sign_ins.number if each.sign_ins else 0,
    }


def _browser(row: Session) -> dict[str, Any]:
    name = user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser")
    return {"name": name, "ago": time_since(row.last_used_at or row.created_at), "since": row.created_at}
