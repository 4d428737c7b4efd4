"""The consent page and other pages of an authorization, a person's list of applications, and the export of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import profile, return_path
from accounts.pages import person_context
from accounts.profile import shown_claims
from accounts.templatetags.times import comma
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.consent.pending_request import FIELD_NAME, PendingRequest
from oauth_bridge.credentials import code_history
from oauth_bridge.models import AccessToken, Application, AuthorizationCode, Consent
from oauth_bridge.models.activity import ActivityRecord
from oauth_bridge.oauth.callback import destination
from oauth_bridge.openid import claims

if TYPE_CHECKING:
    from accounts.models import User

# The parameter that makes authorize show the consent page with a notice. `ask_again` adds it, with a key of NOTICES.
NOTICE = "notice"
OUTDATED = "1"
NOTICES = {
    OUTDATED: gettext_noop("This page was out of date. Please confirm once more."),
    "csrf_no_cookie": gettext_noop(
        "Your browser sent no cookie of this site with your answer. Allow them, then confirm once more."
    ),
    "csrf_origin": gettext_noop(
        "Your browser said that your answer came from another site, or did not say from which. Confirm once more. If it"
        " stays so, switch off extensions that change requests."
    ),
}
SHORT_NAME_LENGTH = 12
NEW_FOR = timedelta(days=30)


def authorize_path(pending: PendingRequest, **more: str) -> str:
    """Return a path at which any person in any browser session can continue the request. `more`: URL parameters."""
    return f"{reverse('authorize')}?{urlencode({FIELD_NAME: replace(pending, bound_to='').seal(), **more})}"


def ask_again(pending: PendingRequest, cause: str = "") -> HttpResponse:
    """Redirect to the consent page with the notice `cause` (a key of NOTICES), or with OUTDATED if `cause` is empty."""
    return HttpResponseRedirect(authorize_path(pending, **{NOTICE: cause or OUTDATED}), status=303)


def sign_in_url(pending: PendingRequest) -> str:
    login = pending.parameters.get("login_hint", "")
    return return_path.sign_in_url(authorize_path(pending), login=login)


def _switch_account(path: str) -> dict[str, str]:
    return {"switch_account_url": return_path.url_of(reverse("account_logout"), path), "switch_next": path}


def consent(
    request: HttpRequest, application: Application, pending: PendingRequest, facts: Sequence[str], notice: str
) -> HttpResponse:
    """Render the consent page. It is shorter if `facts` is PLAIN_FACTS and the person has allowed them before."""
    person = cast("User", request.user)
    notice = notice and (notice if notice in NOTICES else OUTDATED)
    again, path = consents.has_allowed_before(person, application, facts), authorize_path(pending)
    context = {
        "application": application,
        "new": _new(application),
        "again": again,
        "brief": again and facts == claims.PLAIN_FACTS,
        "short_name": _short_name(person),
        "claims": shown_facts(person, application, facts),
        "destination": destination(pending.redirect_uri),
        "is_always_asked": application.has_own_port(pending.redirect_uri),
        "pending": pending.bind(request).seal(),
        **_switch_account(path),
        "notice": _(NOTICES[notice]) if notice else "",
        # The application's link may be too long for the redirect after a change of language.
        "language_next": authorize_path(pending, **{NOTICE: notice}) if notice else path,
    }
    response = render(request, "oauth_bridge/consent.html", context)
    response.leads_to_application = True  # type: ignore[attr-defined]  # read by config.http.response_headers
    return response


def _new(application: Application) -> str:
    age = timezone.now() - application.created
    if application.is_trusted or age >= NEW_FOR:
        return ""
    if age.days < 1:
        return _("New here: registered within a day")
    text = ngettext("New here: registered %(days)d day ago", "New here: registered %(days)d days ago", age.days)
    return text % {"days": age.days}


def shown_facts(person: User, application: Application, facts: Sequence[str]) -> list[dict[str, str]]:
    """Return name, label, value and note of each fact. Raises RequestError: the e-mail address is not confirmed."""
    values = claims.values(person, facts, application.pk)
    shown = [claim | {"value": values[claim["name"]]} for claim in shown_claims(person) if claim["name"] in facts]
    if "groups" in facts:
        note = "" if values["groups"] else _("You are in none of the groups that it asks about.")
        shown.append({"name": "groups", "label": _("Groups"), "value": comma().join(values["groups"]), "note": note})
    return shown


def _short_name(person: User) -> str:
    first, *_others = person.nickname.split() or [""]
    return first if len(first) <= SHORT_NAME_LENGTH else ""


def already_signed_in(request: HttpRequest, application: Application) -> HttpResponse:
    """Render the page for an attempt that gets no further code (`codes.AlreadyRedeemed`).

    Only the application can begin a new attempt, because each attempt needs a new `state` from the application.
    """
    return render(request, "oauth_bridge/already_signed_in.html", {"application": application})


def address_not_confirmed(request: HttpRequest, application: Application, pending: PendingRequest) -> HttpResponse:
    """Render the page that offers to send a code to the person's unconfirmed e-mail address."""
    send_code_url = return_path.url_of(reverse("send_code"), authorize_path(pending))
    context = {"application": application, "send_code_url": send_code_url}
    return render(request, "oauth_bridge/address_not_confirmed.html", context, status=403)


def wrong_account(
    request: HttpRequest, template: str, application: Application, pending: PendingRequest, url: str, status: int
) -> HttpResponse:
    """Render `template`: the person is not admitted, or the request names another person. `url`: the callback URL."""
    path = authorize_path(pending)
    context = {
        "application": application,
        "person": person_context(cast("User", request.user)),
        "url": url,
        **_switch_account(path),
        "language_next": path,
    }
    return render(request, template, context, status=status)


def asking_application(request: HttpRequest) -> Application | None:
    """Return the application whose authorization request is in the return path (`accounts.return_path`), or None."""
    pending = PendingRequest.of_path(return_path.found(request))
    return registry.find(pending.client_id) if pending else None


# The pages of a person's account --------------------------------------------------------------------------------------


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def applications(request: HttpRequest) -> HttpResponse:
    """List the person's applications. A post disconnects an application or ends "don't ask again"."""
    person = cast("User", request.user)
    connections = sorted(consents.connections(person), key=lambda each: each.last_at, reverse=True)
    if request.method == "POST":
        of_client_id = {each.application.client_id: each.application for each in connections}
        if chosen := of_client_id.get(request.POST.get("disconnect", "")):
            consents.disconnect(person, chosen)
            messages.success(request, _("%(name)s is disconnected.") % {"name": chosen.name})
        elif chosen := of_client_id.get(request.POST.get("ask_again", "")):
            consents.forget(person, chosen)
            messages.success(request, _("%(name)s will ask again.") % {"name": chosen.name})
        return HttpResponseRedirect(request.path, status=303)
    context = {
        "person": person_context(person),
        "unasked": [each for each in connections if each.application.is_trusted or each.is_remembered],
        "asked": [each for each in connections if not (each.application.is_trusted or each.is_remembered)],
        "days": code_history.REDEEMED_KEPT_FOR.days,
    }
    return render(request, "oauth_bridge/applications.html", context)


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
    """Return the person's newest consents, codes, tokens and activity records: at most `entries` of each kind."""
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
