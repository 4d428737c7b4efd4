"""The page "Applications", where a person sees and disconnects the applications that they have allowed. D7."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.pages import person_context
from oauth_bridge.consent import remembered
from oauth_bridge.shown_times import time_since
from oauth_bridge.storage import consents, issued_codes
from oauth_bridge.storage.consents import Connection

if TYPE_CHECKING:
    from accounts.models import User


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def applications(request: HttpRequest) -> HttpResponse:
    """List the person's applications. A post ends "don't ask again" or disconnects an application.

    A posted client_id must belong to one of the person's applications.
    """
    person = cast("User", request.user)
    connections = consents.connections(person)
    if request.method == "POST":
        _end(request, person, {each.application.client_id: each for each in connections})
        return HttpResponseRedirect(request.path, status=303)
    remembered_applications = remembered.all_remembered(person, [each.application for each in connections])
    rows = [
        _row(each, is_remembered=each.application in remembered_applications)
        for each in sorted(connections, key=_newest_first)
    ]
    context = {
        "person": person_context(person),
        "unasked": [row for row in rows if row["is_trusted"] or row["is_remembered"]],
        "asked": [row for row in rows if not (row["is_trusted"] or row["is_remembered"])],
        "days": issued_codes.REDEEMED_KEPT_FOR.days,
    }
    return render(request, "oauth_bridge/applications.html", context)


def _end(request: HttpRequest, person: User, connections: dict[str, Connection]) -> None:
    if chosen := connections.get(request.POST.get("disconnect", "")):
        consents.disconnect(person, chosen.application)
        messages.success(request, _("%(name)s is disconnected.") % {"name": chosen.application.name})
    elif chosen := connections.get(request.POST.get("ask_again", "")):
        consents.forget(person, chosen.application)
        messages.success(request, _("%(name)s will ask again.") % {"name": chosen.application.name})


def _newest_first(connection: Connection) -> tuple[float, str]:
    application, consent, sign_ins = connection
    times = [consent.given_at if consent else None, sign_ins.last_at if sign_ins else None]
    return -max(time.timestamp() for time in times if time), application.name


def _row(connection: Connection, *, is_remembered: bool) -> dict[str, Any]:
    application, consent, sign_ins = connection
    return {
        "client_id": application.client_id,
        "name": application.name,
        "host": application.homepage_host,
        "logo": application.logo_url,
        "is_enabled": application.is_enabled,
        "is_trusted": application.is_trusted,
        "is_remembered": is_remembered,
        "allowed_at": consent and consent.given_at,
        "remembered_until": consent and consent.expires_at,
        "last_sign_in": sign_ins and {"at": sign_ins.last_at, "ago": time_since(sign_ins.last_at)},
        "sign_ins": sign_ins.number if sign_ins else 0,
    }
