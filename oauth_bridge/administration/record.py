"""The page of one record: the compared addresses, the advice, a new check of the request, the sent parameters."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from oauth_bridge.activity_causes import FACTOR_AWAITED, UNCONFIRMED
from oauth_bridge.activity_models import Outcome
from oauth_bridge.activity_titles import name_of, title_of
from oauth_bridge.administration import application_acts, person_acts, recheck, record_hints, shown, shown_attempts
from oauth_bridge.administration.shown import Names
from oauth_bridge.applications import rights
from oauth_bridge.applications.rights import ACTIVITY, VIEW
from oauth_bridge.models import Application
from oauth_bridge.redirect_uri_likely_faults import side_by_side
from oauth_bridge.storage import activity_reading, activity_statistics, attempts
from oauth_bridge.storage.activity_reading import Entry
from oauth_bridge.storage.activity_statistics import Failing

MONTH = 30
OF_THE_SECRET = {"secret_wrong", "secret_of_another", "secret_none_left", "secret_expired", "secret_revoked"}
# For each cause, the act on the person's page that removes the cause.
OF_THE_PERSON = {
    "account_inactive": "activate",
    "person_deactivated": "activate",
    "no_verified_email": "confirm",
    UNCONFIRMED: "confirm",
    **dict.fromkeys(recheck.OF_THE_ACCOUNT, "unlock"),
}


def record(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the page of a record.

    Raises PermissionDenied: the permission to see the activity is missing. Raises Http404: the record does not exist,
    or the administrator may not see it.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    client_ids = rights.client_ids(request)
    entry = activity_reading.entry(pk, client_ids)
    if entry is None:
        raise Http404
    each = attempts.of(entry, client_ids)
    names = Names(request, {entry.client_id, each.client_id}, {entry.person_id, each.person_id})
    application = Application.objects.filter(client_id=entry.client_id).first() if entry.client_id else None
    # A sign-in that waits for the second factor was not refused.
    checks = recheck.checks(entry, application) if entry.cause not in ("", FACTOR_AWAITED) else []
    passes = recheck.passes(checks)
    fix = "" if each.is_past_wait else names.fix_of(entry)
    context = {
        **admin.site.each_context(request),
        **_difference(request, entry, application),
        **_same(entry),
        "entry": entry,
        "acts": _acts(request, entry, application),
        "fix": fix,
        "hints": record_hints.hints(request, entry, application) if passes != "yes" else [],
        "limit_ends_at": recheck.limit_ends_at(entry),
        "for_developer": record_hints.for_developer(request, entry, fix) if passes != "yes" else "",
        "title": title_of(entry.cause) if entry.cause else name_of(entry.step),
        "step": name_of(entry.step),
        "is_refusal": entry.outcome != Outcome.SUCCEEDED and not each.is_past_wait,
        "reference": shown.in_groups(entry.reference),
        "application": names.application(entry.client_id),
        "person": names.person(entry.person_id),
        "browser": shown.browser_of(entry),
        "attempt": shown_attempts.attempt(each, names),
        "activity_url": shown.page("activity", client_id=entry.client_id),
        "checks": checks,
        "passes": passes,
        "checked_at": timezone.now(),
        "received": _received(entry),
    }
    return TemplateResponse(request, "administration/record.html", context)


def _acts(request: HttpRequest, entry: Entry, application: Application | None) -> list[tuple[Any, str]]:
    """The label and the URL of each permitted act that removes the cause."""
    found: list[tuple[Any, str]] = []
    if application and entry.cause == "client_disabled":
        acts = application_acts.offered(request, application)
        found += [(each["label"], each["url"]) for each in acts if each["name"] == "switch-on"]
    if application and entry.cause in OF_THE_SECRET and _may_make_secret(request, application):
        found.append((_("New secret"), shown.page("oauth_bridge_application_secret", application.pk)))
    if entry.person_id and (name := OF_THE_PERSON.get(entry.cause)) and not recheck.limit_over(entry):
        found += person_acts.offered_act(request, entry.person_id, name)
    if application and entry.person_id and entry.cause == "not_admitted":
        found += person_acts.offered_groups(request, entry.person_id, application)
    return found


def _may_make_secret(request: HttpRequest, application: Application) -> bool:
    return not application.is_public and rights.may(request, rights.ROTATE, application)


def may_add_addresses(request: HttpRequest, application: Application) -> bool:
    model_admin = admin.site.get_model_admin(Application)
    may_change: bool = model_admin.has_change_permission(request, application)
    return may_change and "redirect_uris" not in model_admin.get_readonly_fields(request, application)


def _difference(request: HttpRequest, entry: Entry, application: Application | None) -> dict[str, Any]:
    """Compare an unregistered callback address with the nearest registered one.

    Also check whether the unregistered address may be added.
    """
    sent, nearest = entry.detail.get("sent"), entry.detail.get("nearest")
    if not sent or entry.cause != "redirect_uri_mismatch":
        return {}
    pieces = side_by_side(sent, nearest) if nearest else [(sent, "", True)]
    with_others = request.user.has_perm(VIEW)
    checks = recheck.addition(sent, application, with_others=with_others) if application else []
    return {
        "pieces": pieces,
        "nearest": nearest,
        "registered_count": len(application.callback_addresses) if application else 0,
        "addition": checks,
        "may_add": bool(checks) and all(check.kind != "no" for check in checks),
        "add_url": shown.page("add_address", entry.id)
        if application and may_add_addresses(request, application)
        else "",
    }


def _same(entry: Entry) -> dict[str, Any]:
    """Count the failures of the last MONTH days with the application, step and cause of the record."""
    since = activity_statistics.start_of(MONTH)
    failing = Failing(entry.client_id, entry.step, entry.cause)
    same = activity_statistics.met(since, [entry.client_id]).get(failing)
    counted = activity_statistics.failures(since, None, [entry.client_id])[failing]
    number = max(counted, same.records) if same else counted  # the counts are written a moment later than the records
    return {
        "same": same,
        "same_number": number,
        "same_url": shown.page("activity", client_id=entry.client_id, cause=entry.cause, step=entry.step, days=MONTH),
        "is_only_one": number == 1 and entry.at >= since,
    }


def _received(entry: Entry) -> list[tuple[str, str]]:
    """The sent parameters. For a value that may be a secret, the record has only the length."""
    return [(name, str(value)) for name, value in entry.detail.get("parameters", {}).items()]
