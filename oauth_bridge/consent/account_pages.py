"""What this package adds to the account pages: a person's applications, and the export of the person's data."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import profile
from accounts.pages import person_context
from oauth_bridge.consent import consents
from oauth_bridge.consent.consents import Connection
from oauth_bridge.credentials import code_history
from oauth_bridge.models import AccessToken, Application, AuthorizationCode, Consent
from oauth_bridge.models.activity import ActivityRecord

if TYPE_CHECKING:
    from accounts.models import User


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def applications(request: HttpRequest) -> HttpResponse:
    """List the person's applications. A post ends "don't ask again" or disconnects an application."""
    person = cast("User", request.user)
    connections = sorted(consents.connections(person), key=_newest_first)
    if request.method == "POST":
        _end(request, person, {each.application.client_id: each for each in connections})
        return HttpResponseRedirect(request.path, status=303)
    context = {
        "person": person_context(person),
        "unasked": [each for each in connections if each.application.is_trusted or each.is_remembered],
        "asked": [each for each in connections if not (each.application.is_trusted or each.is_remembered)],
        "days": code_history.REDEEMED_KEPT_FOR.days,
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
    application, consent, sign_ins, _ = connection
    times = [consent.given_at if consent else None, sign_ins.last_at if sign_ins else None]
    return -max(time.timestamp() for time in times if time), application.name


class ExportView(profile.ExportView):
    def data(self, person: User) -> dict[str, Any]:
        return super().data(person) | stored_about(person, profile.ENTRIES)


_COLUMNS = {
    # The first column is the time of the entry.
    "consents": (Consent, ("given_at", "expires_at")),
    "authorization_codes": (AuthorizationCode, ("issued_at", "expires_at", "redeemed_at", "redirect_uri", "scope")),
    "access_tokens": (AccessToken, ("issued_at", "expires_at", "revoked_at", "scope")),
}
_OF_A_RECORD = ("at", "client_id", "step", "outcome", "cause", "reference", "address", "browser")


def stored_about(person: User, entries: int) -> dict[str, list[dict[str, Any]]]:
    """The person's newest consents, codes, tokens and records, at most `entries` of each kind, without digests."""
    found = {}
    for name, (model, columns) in _COLUMNS.items():
        rows = model._default_manager.filter(user_id=person.pk).order_by(f"-{columns[0]}")
        found[name] = list(rows.values("application_id", *columns)[:entries])
    described = list(chain.from_iterable(found.values()))
    applications = Application.objects.in_bulk({row["application_id"] for row in described})
    for row in described:
        application = applications.get(row.pop("application_id"))
        row["application"] = application.name if application else None
        row["client_id"] = application.client_id if application else None
    records = ActivityRecord.objects.filter(person=person.pk).order_by("-at", "-id")
    found["activity"] = list(records.values(*_OF_A_RECORD)[:entries])
    return found
